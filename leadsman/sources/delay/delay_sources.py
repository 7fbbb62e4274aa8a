"""Builds and runs the delay sources that an operator chose, and the estimator."""

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from msgspec import Struct
from prometheus_client import Metric

from leadsman.decision.policy import Policy
from leadsman.runtime.scrape import counter, gauge
from leadsman.sources.delay.estimator import Estimator
from leadsman.sources.delay.goldpinger import GoldpingerPoller
from leadsman.sources.delay.matrix import MatrixFiles
from leadsman.sources.source import Source
from leadsman.state.snapshot import Snapshot

# Metrics of the delay sources and of the estimates. A scrape reads memory only.


def source_metrics(sources: Sequence[GoldpingerPoller | MatrixFiles], now: float) -> Iterator[Metric]:
    """Makes the metrics of each source. now: monotonic seconds."""
    if not sources:
        return
    views = {each.source: each.current for each in sources}
    yield gauge(
        "leadsman_delay_source_up",
        "1 when the delay source was last read without a problem, else 0.",
        {each.source: not (each.problem.text or views[each.source] is None) for each in sources},
        "source",
    )
    nodes = {name: len(view.nodes) if view else 0 for name, view in views.items()}
    yield gauge("leadsman_delay_source_nodes", "Nodes that the delay source has delays of.", nodes, "source")
    yield gauge(
        "leadsman_delay_source_age_seconds",
        "Seconds since the delays of the source were measured.",
        {name: now - view.read_at for name, view in views.items() if view and view.read_at is not None},
        "source",
    )


def estimate_metrics(estimator: Estimator, now: float) -> Iterator[Metric]:
    """Makes the metrics of the estimator and of the estimates in use. now: monotonic seconds."""
    yield counter("leadsman_estimates_fits", "Fits of delay estimates that succeeded.", estimator.fits)
    failed = "Rounds of fitting delay estimates and node groups that failed."
    yield counter("leadsman_estimates_failures", failed, estimator.failures)
    fitted = estimator.current
    if fitted is None:
        return
    pairs, error = fitted.estimates.pairs, fitted.estimates.expected_error
    took = "Seconds that the last fit of delay estimates took."
    yield gauge("leadsman_estimates_fit_seconds", took, estimator.fit_seconds)
    read = "Seconds since the data behind the delay estimates were read."
    yield gauge("leadsman_estimates_age_seconds", read, now - fitted.made_at)
    yield gauge("leadsman_estimates_nodes", "Nodes that have delay estimates.", pairs.node_count)
    fitted_to = "Measured pairs that the delay estimates were fitted to."
    yield gauge("leadsman_estimates_pairs", fitted_to, len(pairs.log_ms))
    yield gauge(
        "leadsman_implausible_reports",
        "Reported delays beyond what other nodes' reports allow, which estimates are made without.",
        sum(map(len, fitted.implausible.values())),
    )
    contradicted = "Nodes whose reported delays other nodes contradict, named by leadsman state."
    yield gauge("leadsman_contradicted_nodes", contradicted, len(fitted.contradicted))
    if isfinite(error):  # Unknown while too few pairs are measured to leave any out.
        yield gauge(
            "leadsman_estimates_expected_error_ratio",
            "Median relative error of the delay estimates on measured pairs that were left out of the fit.",
            error,
        )


def reported_names(snapshot: Snapshot) -> dict[str, str]:
    """Maps each address to its node by the agents' identities; in its node's network an agent reports the node's."""
    identities = ((state.identity, node) for node, state in snapshot.nodes.items())
    return {identity.address: node for identity, node in identities if identity}


class DelaySettings(Struct, frozen=True):
    """Names the delay sources to follow besides our agents' reports, which always count first.

    goldpinger_url: "": no Goldpinger.
    goldpinger_interval_seconds: between two polls.
    matrix, metadata: static files, both or none.
    estimates: whether to fit them.
    initial_layers_ms: layers of node groups, when the policy names none.
    """

    goldpinger_url: str = ""
    goldpinger_interval_seconds: float = 30.0
    matrix: Path | None = None
    metadata: Path | None = None
    estimates: bool = True
    initial_layers_ms: tuple[float, ...] = ()


class DelaySources:
    """Holds all delay sources of a process, and the estimator.

    sources: in the order in which they count.

    Raises UnusableFile when files cannot be used at start.
    """

    def __init__(
        self,
        settings: DelaySettings,
        state: Source[Snapshot],
        policy: Source[Policy],
        addresses: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """addresses: address → node, from the API server."""
        self._goldpinger = (
            [
                GoldpingerPoller(
                    settings.goldpinger_url,
                    lambda: {**addresses(), **reported_names(state.current)},
                    settings.goldpinger_interval_seconds,
                )
            ]
            if settings.goldpinger_url
            else []
        )
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
        )

    @property
    def problems(self) -> Mapping[str, str]:
        """Maps each source whose newest data are not in use to why."""
        problems = {source.source: source.problem for source in self.sources} | {"estimates": self.estimator.problem}
        return {name: problem.text for name, problem in problems.items() if problem.text}

    @property
    def implausible(self) -> Mapping[str, Sequence[str]]:
        """Maps each reporter to the nodes that it reports an implausible delay to, by the newest estimates."""
        return self.estimator.current.implausible if self.estimator.current else {}

    @property
    def contradicted(self) -> Mapping[str, str]:
        """Maps each node to what it reports that others contradict, by the newest estimates."""
        return self.estimator.current.contradicted if self.estimator.current else {}

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """Yields the name and loop of each task; all run until cancelled."""
        for source in self.sources:
            yield f"read delays from {source.source}", source.run()
        yield "fit estimates", self.estimator.run()

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        now = time.monotonic()
        yield from source_metrics(self.sources, now)
        yield from estimate_metrics(self.estimator, now)
