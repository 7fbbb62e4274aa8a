"""What the sources say is what decisions take: fits, Goldpinger and matrices through the real delay filter."""

from typing import TYPE_CHECKING, Any

import pytest

from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy, Statistic
from leadsman.network.fitting import FitBudget
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates, gather_measurements
from leadsman.sources.delay.goldpinger import GoldpingerReport, GoldpingerView
from leadsman.state.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.leadsman.sources.delay.conftest import Make


def kept(facts: DecisionInputs, bound_ms: float, *nodes: str) -> tuple[str, ...]:
    """For a pod at most so far from n-00."""
    return filter_nodes(PodInfo("default", "pod", labels={"delay_n-00": f"{bound_ms:.6f}"}), nodes, facts).kept


@pytest.fixture(scope="module")
def snapshot(make: "Make") -> Any:
    return make.plane(at=0.0)


@pytest.fixture(scope="module")
def fit(snapshot: Snapshot, quick: FitBudget) -> FittedEstimates:
    return fit_estimates(gather_measurements(snapshot, 1.0, Statistic.P50), 1.0, budget=quick)


@pytest.fixture(scope="module")
def estimated(fit: FittedEstimates) -> tuple[str, float, float]:
    """A node that nobody measured from n-00, with its estimate and the upper end."""
    row = fit.row("n-00")
    at = row.source.index("coordinates")
    return row.nodes[at], row.rtt_ms[at], row.high_ms[at]


def facts(snapshot: Snapshot, estimate: EstimateMode = EstimateMode.UPPER_BOUND, **more: Any) -> DecisionInputs:
    return DecisionInputs(snapshot, Policy(delay=DelayPolicy(estimate=estimate)), 1.0, **more)


def test_a_pair_that_nobody_measured_passes_when_the_upper_end_keeps_the_bound(
    snapshot: Snapshot, fit: FittedEstimates, estimated: tuple[str, float, float]
) -> None:
    node, rtt_ms, high_ms = estimated
    assert kept(facts(snapshot, estimates=fit), high_ms + 0.01, node) == (node,)
    assert kept(facts(snapshot, estimates=fit), (rtt_ms + high_ms) / 2, node) == ()
    assert kept(facts(snapshot, EstimateMode.ACCEPT, estimates=fit), (rtt_ms + high_ms) / 2, node) == (node,)
    assert kept(facts(snapshot, EstimateMode.REJECT, estimates=fit), 60_000, node) == ()


def test_a_pair_that_was_probed_in_vain_is_not_estimated(
    snapshot: Snapshot, fit: FittedEstimates, estimated: tuple[str, float, float]
) -> None:
    node, _, high_ms = estimated
    view = GoldpingerView({"n-00": GoldpingerReport({}, {node}, "")}, {"n-00", node}, 0.0, 50.0)
    assert kept(facts(snapshot, estimates=fit, delay_views=(view,)), high_ms + 0.01, node) == ()
