"""Pressure: the weighted mean square of what a node reports, bounded, and unknown rather than zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.policy import PressurePolicy, PressureWeights
from leadsman.decision.pressure_score import PressureScore, headroom, pressure_terms
from leadsman.state import metric_names
from leadsman.state.records import Hardware
from leadsman.state.snapshot import NodeState
from tests.leadsman.decision import make

EQUAL = pressure_terms(PressurePolicy(weights=PressureWeights(cpu=1, memory=1, io=1, load=1, temperature=1)))


def eased(**values: float) -> float | None:
    return headroom(EQUAL, NodeState(hardware=Hardware(values)))


@pytest.mark.parametrize(
    ("metric", "value", "left"),
    [
        (metric_names.CPU_PRESSURE, 0.25, 0.9375),
        (metric_names.LOAD_PER_CPU, 0.25, 0.9375),
        (metric_names.LOAD_PER_CPU, 7.0, 0.0),
        (metric_names.TEMPERATURE, 60.0, 1.0),
        (metric_names.TEMPERATURE, 77.5, 0.75),
        (metric_names.TEMPERATURE, 95.0, 0.0),
    ],
)
def test_each_metric_counts_on_its_scale(metric: str, value: float, left: float) -> None:
    assert eased(**{metric: value}) == pytest.approx(left)


def test_weights_are_shares() -> None:
    three_to_one = pressure_terms(PressurePolicy(weights=PressureWeights(cpu=3, memory=1)))
    state = NodeState(hardware=Hardware({metric_names.CPU_PRESSURE: 1.0, metric_names.MEMORY_PRESSURE: 0.0}))
    assert headroom(three_to_one, state) == 0.25


def test_a_little_pressure_everywhere_counts_less_than_one_resource_that_is_full() -> None:
    """So lightly loaded nodes score alike, and the scheduler's own scores spread pods over them."""
    assert eased(**{term.metric: term.low + 0.2 * term.span for term in EQUAL}) == pytest.approx(0.96)
    assert eased(**{term.metric: term.low + (n == 0) * term.span for n, term in enumerate(EQUAL)}) == pytest.approx(0.8)


@given(st.dictionaries(st.sampled_from([term.metric for term in EQUAL]), st.floats(allow_nan=False), min_size=1))
def test_no_report_leaves_0_and_1(values: dict[str, float]) -> None:
    left = eased(**values)
    assert left is not None
    assert 0.0 <= left <= 1.0


def test_only_fresh_reports_count_and_the_others_say_why() -> None:
    metrics = {metric_names.CPU_PRESSURE: 0.25}
    nodes = {kind: make.state({}, metrics, kind) for kind in ("fresh", "stale", "provisional", "silent")}
    nodes["bare"] = make.state({}, {})
    part = PressureScore().score(make.pod(), [*nodes, "absent"], make.facts(nodes))
    assert part.values == {"fresh": 0.9375}
    assert part.unknown == {
        "stale": "the node is stale",
        "provisional": "the node is provisional",
        "silent": "the node is silent",
        "absent": "the node is silent",
        "bare": "no pressure metrics",
    }
