"""Metrics that somebody else must be asked for, read again and again and kept as a table."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from leadsman.decision.telemetry.model import DEFAULT_MAX_AGE_SECONDS, PolledMetrics, Readings
from leadsman.runtime.problem_log import ProblemLog

POLL_INTERVAL_SECONDS = 5.0
"""Three polls within the age limit: one that fails makes nothing old."""

POLL_TIMEOUT_SECONDS = 3.0

RETENTION_SECONDS = 600.0
"""How long a node without a new value is remembered as one that reports the metric."""

_MAX_CONCURRENT = 8
_MIN_PAUSE_SECONDS = 0.2

log = logging.getLogger(__name__)


class MetricUnavailable(Exception):
    """The metric cannot be had now. What was read before ages; ask again."""


class Sample(NamedTuple):
    """nanos: the value (see leadsman.decision.telemetry.quantity). stamp: changes with each measurement; "": nothing
    known."""

    nanos: int
    timestamp: str = ""


Samples = Mapping[str, Sample]
"""Node → its sample."""


class MetricPoller:
    """`run` it as one task; readers take `current`, which is replaced and never altered.

    ask: one metric's samples, or MetricUnavailable. wanted: the metrics to ask for now.
    errors: metric → why it was not answered last time. clock: monotonic seconds, the one of the decisions.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[str], Awaitable[Samples]],
        wanted: Callable[[], Collection[str]],
        *,
        interval_seconds: float = POLL_INTERVAL_SECONDS,
        deadline_seconds: float = POLL_TIMEOUT_SECONDS,
        age_seconds: float = DEFAULT_MAX_AGE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.name, self.current = name, PolledMetrics(max_age_seconds=age_seconds)
        self._problems: dict[str, ProblemLog] = {}
        self._ask, self._wanted, self._clock, self._rng = ask, wanted, clock, rng or random.Random()
        self._interval_seconds, self._deadline_seconds = interval_seconds, deadline_seconds
        self._stamps: dict[str, Samples] = {}
        self._poll_requested = asyncio.Event()

    @property
    def errors(self) -> Mapping[str, str]:
        return {metric: problem.text for metric, problem in self._problems.items() if problem.text}

    async def run(self) -> None:
        """For ever."""
        while True:
            began = self._clock()
            self._poll_requested.clear()
            await self.poll()
            await self._pause(self._interval_seconds * self._rng.uniform(0.9, 1.1) - (self._clock() - began))

    def poll_soon(self) -> None:
        """Something new is wanted: the next poll comes at once."""
        self._poll_requested.set()

    async def poll(self) -> None:
        """Asks for each wanted metric once. What is not wanted any more is forgotten."""
        wanted = sorted(self._wanted())
        self._drop_unwanted(frozenset(wanted))
        self._problems = {metric: self._problems.get(metric) or self._problem_log(metric) for metric in wanted}
        gate = asyncio.Semaphore(_MAX_CONCURRENT)
        async with asyncio.TaskGroup() as group:
            for metric in wanted:
                group.create_task(self._poll(metric, gate), name=f"poll {metric}")

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(_MIN_PAUSE_SECONDS)
        try:
            async with asyncio.timeout(max(0.0, seconds - _MIN_PAUSE_SECONDS)):
                await self._poll_requested.wait()
        except TimeoutError:
            return

    async def _poll(self, metric: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            try:
                async with asyncio.timeout(self._deadline_seconds):
                    samples = await self._ask(metric)
            except TimeoutError:
                self._problems[metric].report(f"no answer within {self._deadline_seconds:g} s")
            except MetricUnavailable as error:
                self._problems[metric].report(str(error))
            else:
                self._accept(metric, samples)

    def _accept(self, metric: str, samples: Samples) -> None:
        column = merge_samples(self.current.columns.get(metric), self._stamps.get(metric, {}), samples, self._clock())
        self._stamps[metric] = samples
        columns = {**self.current.columns, metric: column}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._problems[metric].clear()

    def _problem_log(self, metric: str) -> ProblemLog:
        begins = f"source {self.name} gives no {metric}; the last values stay in use until they are too old"
        return ProblemLog(log, begins, f"source {self.name} gives {metric} again")

    def _drop_unwanted(self, wanted: frozenset[str]) -> None:
        if self.current.columns.keys() <= wanted:
            return
        columns = {metric: column for metric, column in self.current.columns.items() if metric in wanted}
        self.current = PolledMetrics(MappingProxyType(columns), self.current.max_age_seconds)
        self._stamps = {metric: stamps for metric, stamps in self._stamps.items() if metric in wanted}


def merge_samples(before: Readings | None, stamps: Samples, samples: Samples, now: float) -> Readings:
    """The column after an answer. stamps: the answer before it.

    Only a measurement that is a new one counts as read now. A node that is missing keeps its value, which ages.
    """
    known = before or Readings()
    times = known.read_at or {}
    kept = {node: value for node, value in known.values.items() if now - times[node] < RETENTION_SECONDS}
    values = {**kept, **{node: sample.nanos for node, sample in samples.items()}}
    new = {node for node, sample in samples.items() if not sample.timestamp or stamps.get(node) != sample}
    read_at = {node: now if node in new else times.get(node, now) for node in values}
    return Readings(MappingProxyType(values), MappingProxyType(read_at), min(read_at.values(), default=float("inf")))
