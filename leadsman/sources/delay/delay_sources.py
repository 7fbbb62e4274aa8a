"""Builds and runs the delay sources that an operator chose, and the estimator."""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from prometheus_client.core import Metric

from leadsman.decision.policy import Policy
from leadsman.sources.delay import metrics
from leadsman.sources.delay.estimator import Estimator
from leadsman.sources.delay.goldpinger import GoldpingerPoller, GoldpingerSettings
from leadsman.sources.delay.groups import DelayGroups
from leadsman.sources.delay.matrix_files import MatrixFiles
from leadsman.sources.delay.node_names import NodeNames
from leadsman.sources.source import Source
from leadsman.state.snapshot import Snapshot


class DelaySettings(Struct, frozen=True):
    """Which delay sources to follow besides our agents' reports, which always count first.

    goldpinger_url: "": no Goldpinger.
    goldpinger_names_file: addresses and pods by node (leadsman.sources.delay.node_names).
    goldpinger_interval_seconds: between two polls.
    matrix, metadata: static files, both or none.
    estimates: whether to fit them.
    initial_layers_ms: layers of node groups, when the policy names none.
    """

    goldpinger_url: str = ""
    goldpinger_names_file: Path | None = None
    goldpinger_interval_seconds: float = 30.0
    matrix: Path | None = None
    metadata: Path | None = None
    estimates: bool = True
    initial_layers_ms: tuple[float, ...] = ()


class DelaySources:
    """All delay sources of a process, and the estimator.

    sources: in the order in which they count.

    Raises UnusableFile when files cannot be used at start.
    """

    def __init__(
        self,
        settings: DelaySettings,
        state: Source[Snapshot],
        policy: Source[Policy],
        addresses: Callable[[], Mapping[str, str]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """addresses: address → node, from the API server."""
        self._clock = clock
        self._goldpinger = _goldpinger(settings, lambda: state.current, addresses, clock)
        self._static = (
            [MatrixFiles(settings.matrix, settings.metadata)] if settings.matrix and settings.metadata else []
        )
        self.sources: Sequence[GoldpingerPoller | MatrixFiles] = (*self._goldpinger, *self._static)
        self.estimator = Estimator(
            state,
            policy,
            self._goldpinger,
            self._static,
            estimates=settings.estimates,
            initial_layers_ms=settings.initial_layers_ms,
            clock=clock,
        )

    @property
    def groups(self) -> DelayGroups | None:
        """The newest groups of nodes; None until they are made."""
        return self.estimator.groups

    @property
    def problems(self) -> Mapping[str, str]:
        """Source → why its newest data are not in use."""
        problems = {source.source: source.problem for source in self.sources} | {"estimates": self.estimator.problem}
        return {name: problem.text for name, problem in problems.items() if problem.text}

    @property
    def implausible(self) -> Mapping[str, Sequence[str]]:
        """Reporter → the nodes that it reports an implausible delay to, by the newest estimates."""
        return self.estimator.current.implausible if self.estimator.current else {}

    @property
    def contradicted(self) -> Mapping[str, str]:
        """Node → what it reports that others contradict, by the newest estimates."""
        return self.estimator.current.contradicted if self.estimator.current else {}

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """Name and loop of each task; all run until cancelled."""
        for source in self.sources:
            yield f"read delays from {source.source}", source.run()
        yield "fit estimates", self.estimator.run()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        now = self._clock()
        yield from metrics.source_metrics(self.sources, now)
        yield from metrics.estimate_metrics(self.estimator, now)


def _goldpinger(
    settings: DelaySettings,
    snapshot: Callable[[], Snapshot],
    addresses: Callable[[], Mapping[str, str]],
    clock: Callable[[], float],
) -> list[GoldpingerPoller]:
    if not settings.goldpinger_url:
        return []
    names = NodeNames(snapshot, settings.goldpinger_names_file)
    polling = GoldpingerSettings(settings.goldpinger_interval_seconds)
    return [GoldpingerPoller(settings.goldpinger_url, lambda: {**addresses(), **names()}, polling, clock)]
