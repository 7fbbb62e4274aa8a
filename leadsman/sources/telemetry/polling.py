"""Polls the metrics that policies name from a source, and keeps the newest values as a table."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from leadsman.decision.inputs import DEFAULT_MAX_AGE_SECONDS, PolledMetrics, Readings
from leadsman.runtime.problem_log import ProblemLog

POLL_INTERVAL_SECONDS = 5.0
"""Three polls within the age limit: one that fails makes no value too old."""

POLL_TIMEOUT_SECONDS = 3.0

RETENTION_SECONDS = 600.0
"""How long a node without a new value is remembered as one that reports the metric."""

_MAX_CONCURRENT = 8
_MIN_PAUSE_SECONDS = 0.2

log = logging.getLogger(__name__)


class MetricUnavailable(Exception):
    """The source cannot return the metric now. The last values age; poll again."""


class Sample(NamedTuple):
    """One value of a node.

    nanos: the value in billionths (see leadsman.kube.quantity).
    timestamp: changes with each measurement; "": unknown.
    """

    nanos: int
    timestamp: str = ""


Samples = Mapping[str, Sample]
"""Node → its sample."""


class MetricPoller:
    """Polls one source. `run` it as one task; readers take `current`, which is replaced and never altered.

    query: returns one metric's samples or raises MetricUnavailable.
    metrics: returns the metrics to poll now.
    age_seconds: how long a value counts.
    clock: monotonic seconds, the one of decisions.
    errors: metric → why the last poll did not read it.
    """

    def __init__(
        self,
        name: str,
        query: Callable[[str], Awaitable[Samples]],
        metrics: Callable[[], Collection[str]],
        *,
        interval_seconds: float = POLL_INTERVAL_SECONDS,
        deadline_seconds: float = POLL_TIMEOUT_SECONDS,
        age_seconds: float = DEFAULT_MAX_AGE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.name, self.current = name, PolledMetrics(max_age_seconds=age_seconds)
        self._problems: dict[str, ProblemLog] = {}
        self._query, self._metrics, self._clock, self._rng = query, metrics, clock, rng or random.Random()
        self._interval_seconds, self._deadline_seconds = interval_seconds, deadline_seconds
        self._last_samples: dict[str, Samples] = {}
        self._poll_requested = asyncio.Event()

    @property
    def errors(self) -> Mapping[str, str]:
        return {metric: problem.text for metric, problem in self._problems.items() if problem.text}

    async def run(self) -> None:
        """Polls until cancelled."""
        while True:
            began = self._clock()
            self._poll_requested.clear()
            await self.poll()
            await self._pause(self._interval_seconds * self._rng.uniform(0.9, 1.1) - (self._clock() - began))

    def poll_soon(self) -> None:
        """Makes the next poll come at once, because policies name another metric."""
        self._poll_requested.set()

    async def poll(self) -> None:
        """Queries each metric once, and forgets metrics that no policy names any more."""
        metrics = sorted(self._metrics())
        self._drop_others(frozenset(metrics))
        self._problems = {metric: self._problems.get(metric) or self._problem_log(metric) for metric in metrics}
        slots = asyncio.Semaphore(_MAX_CONCURRENT)
        async with asyncio.TaskGroup() as group:
            for metric in metrics:
                group.create_task(self._poll(metric, slots), name=f"poll {metric}")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_MIN_PAUSE_SECONDS)
        try:
            async with asyncio.timeout(max(0.0, seconds - _MIN_PAUSE_SECONDS)):
                await self._poll_requested.wait()
        except TimeoutError:
            return

    async def _poll(self, metric: str, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    samples = await self._query(metric)
            except TimeoutError:
                self._problems[metric].report(f"no answer within {self._deadline_seconds:g} s")
            except MetricUnavailable as error:
                self._problems[metric].report(str(error))
            else:
                self._accept(metric, samples)

    def _accept(self, metric: str, samples: Samples) -> None:
        last_samples = self._last_samples.get(metric, {})
        column = merge_samples(self.current.columns.get(metric), last_samples, samples, self._clock())
        self._last_samples[metric] = samples
        columns = {**self.current.columns, metric: column}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._problems[metric].clear()

    def _problem_log(self, metric: str) -> ProblemLog:
        begins = f"source {self.name} gives no {metric}; the last values stay in use until they are too old"
        return ProblemLog(log, begins, f"source {self.name} gives {metric} again")

    def _drop_others(self, metrics: frozenset[str]) -> None:
        if self.current.columns.keys() <= metrics:
            return
        columns = {metric: column for metric, column in self.current.columns.items() if metric in metrics}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._last_samples = {metric: last for metric, last in self._last_samples.items() if metric in metrics}


def merge_samples(before: Readings | None, last_samples: Samples, samples: Samples, now: float) -> Readings:
    """The readings after a response. last_samples: of the response before it.

    Only a new measurement counts as read now. A node that is missing keeps its value, which ages.
    """
    readings = before or Readings()
    times = readings.read_at or {}
    recent = {node: value for node, value in readings.values.items() if now - times[node] < RETENTION_SECONDS}
    values = {**recent, **{node: sample.nanos for node, sample in samples.items()}}
    new = {node for node, sample in samples.items() if not sample.timestamp or last_samples.get(node) != sample}
    read_at = {node: now if node in new else times.get(node, now) for node in values}
    return Readings(MappingProxyType(values), MappingProxyType(read_at), min(read_at.values(), default=float("inf")))
