"""The sources that an operator chose, ready to run and to be asked."""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from prometheus_client.core import Metric

from leadsman.sources.delay import metrics
from leadsman.sources.delay.estimator import CurrentPolicySource, Estimator, SnapshotSource
from leadsman.sources.delay.goldpinger import GoldpingerPoller, GoldpingerSettings
from leadsman.sources.delay.groups import DelayGroups
from leadsman.sources.delay.matrix_files import MatrixFiles
from leadsman.sources.delay.node_names import NodeNames
from leadsman.state.snapshot import Snapshot


class DelaySettings(Struct, frozen=True):
    """Besides our agents' reports, which always count first. goldpinger: its URL; "" is none. goldpinger_names: a file
    of leadsman.sources.delay.node_names. matrix, metadata: static files, both or none. estimates: whether to fit them.
    initial_layers_ms: of node groups, when the policy names none.
    """

    goldpinger_url: str = ""
    goldpinger_names_file: Path | None = None
    goldpinger_interval_seconds: float = 30.0
    matrix: Path | None = None
    metadata: Path | None = None
    estimates: bool = True
    initial_layers_ms: tuple[float, ...] = ()


class DelaySources:
    """delays: in the order in which they count. UnusableFile when files cannot be used at start."""

    def __init__(
        self,
        choice: DelaySettings,
        state: SnapshotSource,
        policy: CurrentPolicySource,
        addresses: Callable[[], Mapping[str, str]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """addresses: further names of nodes, as the API server knows them."""
        self._clock = clock
        self._goldpinger = _goldpinger(choice, lambda: state.current, addresses, clock)
        self._static = [MatrixFiles(choice.matrix, choice.metadata)] if choice.matrix and choice.metadata else []
        self.sources: Sequence[GoldpingerPoller | MatrixFiles] = (*self._goldpinger, *self._static)
        self.estimator = Estimator(
            state,
            policy,
            self._goldpinger,
            self._static,
            estimates=choice.estimates,
            initial_layers_ms=choice.initial_layers_ms,
            clock=clock,
        )

    @property
    def groups(self) -> DelayGroups | None:
        return self.estimator.groups

    @property
    def problems(self) -> Mapping[str, str]:
        """Source → why its newest is not in use."""
        problems = {source.source: source.problem for source in self.sources} | {"estimates": self.estimator.problem}
        return {name: problem.text for name, problem in problems.items() if problem.text}

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """Name and loop of each; all run until cancelled."""
        for source in self.sources:
            yield f"delays from {source.source}", source.run()
        yield "estimates", self.estimator.run()

    def families(self) -> Iterator[Metric]:
        now = self._clock()
        yield from metrics.source_metrics(self.sources, now)
        yield from metrics.estimate_metrics(self.estimator, now)


def _goldpinger(
    choice: DelaySettings,
    snapshot: Callable[[], Snapshot],
    addresses: Callable[[], Mapping[str, str]],
    clock: Callable[[], float],
) -> list[GoldpingerPoller]:
    if not choice.goldpinger_url:
        return []
    names = NodeNames(snapshot, choice.goldpinger_names_file)
    pace = GoldpingerSettings(choice.goldpinger_interval_seconds)
    return [GoldpingerPoller(choice.goldpinger_url, lambda: {**addresses(), **names()}, pace, clock)]
