"""Metrics of the delay sources and of the estimates. A scrape reads memory only."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leadsman.decision.delay.views import DelayView
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.estimator import Estimator


class DelaySource(Protocol):
    """Goldpinger or static files.

    problem: why the newest data are not the current ones.
    """

    @property
    def source(self) -> str: ...
    @property
    def problem(self) -> ProblemLog: ...
    @property
    def current(self) -> DelayView | None: ...


def source_metrics(sources: Sequence[DelaySource], now: float) -> Iterator[Metric]:
    """Metrics of each source. now: monotonic seconds."""
    if not sources:
        return
    up = GaugeMetricFamily(
        "leadsman_delay_source_up",
        "1 when the delay source was last read without a problem, else 0.",
        labels=["source"],
    )
    nodes = GaugeMetricFamily(
        "leadsman_delay_source_nodes", "Nodes that the delay source has delays of.", labels=["source"]
    )
    age = GaugeMetricFamily(
        "leadsman_delay_source_age_seconds", "Seconds since the delays of the source were measured.", labels=["source"]
    )
    for source in sources:
        view = source.current
        up.add_metric([source.source], 0.0 if source.problem.text or view is None else 1.0)
        nodes.add_metric([source.source], len(view.nodes) if view else 0)
        if view and view.read_at is not None:
            age.add_metric([source.source], now - view.read_at)
    yield from (up, nodes, age)


def estimate_metrics(estimator: Estimator, now: float) -> Iterator[Metric]:
    """Metrics of the estimator and of the estimates in use. now: monotonic seconds."""
    yield CounterMetricFamily("leadsman_estimates_fits", "Fits of delay estimates that succeeded.", estimator.fits)
    yield CounterMetricFamily(
        "leadsman_estimates_failures",
        "Rounds of fitting delay estimates and node groups that failed.",
        estimator.failures,
    )
    fitted = estimator.current
    if fitted is None:
        return
    estimates = fitted.estimates
    yield GaugeMetricFamily(
        "leadsman_estimates_fit_seconds", "Seconds that the last fit of delay estimates took.", estimator.fit_seconds
    )
    yield GaugeMetricFamily(
        "leadsman_estimates_age_seconds",
        "Seconds since the data behind the delay estimates were read.",
        now - fitted.made_at,
    )
    yield GaugeMetricFamily("leadsman_estimates_nodes", "Nodes that have delay estimates.", estimates.pairs.node_count)
    yield GaugeMetricFamily(
        "leadsman_estimates_pairs",
        "Measured pairs that the delay estimates were fitted to.",
        len(estimates.pairs.log_ms),
    )
    yield GaugeMetricFamily(
        "leadsman_implausible_reports",
        "Reported delays beyond what other nodes' reports allow, which estimates are made without.",
        sum(map(len, fitted.implausible.values())),
    )
    yield GaugeMetricFamily(
        "leadsman_contradicted_nodes",
        "Nodes whose reported delays other nodes contradict, named by leadsman state.",
        len(fitted.contradicted),
    )
    if isfinite(error := estimates.expected_error):  # Unknown while too few pairs are measured to leave any out.
        yield GaugeMetricFamily(
            "leadsman_estimates_expected_error_ratio",
            "Median relative error of the delay estimates on measured pairs that were left out of the fit.",
            error,
        )
