"""Pressure: the weighted mean square of what a node reports, bounded, and unknown rather than zero."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.policy import Policy, PressurePolicy, PressureWeights, ScoresPolicy
from leadsman.decision.pressure_score import PressureScore, headroom, pressure_terms
from leadsman.state import metric_names
from leadsman.state.records import Hardware
from leadsman.state.snapshot import NodeState

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make

EQUAL = pressure_terms(PressurePolicy(weights=PressureWeights(cpu=1, memory=1, io=1, load=1, temperature=1)))


def eased(**values: float) -> float | None:
    return headroom(EQUAL, NodeState(hardware=Hardware(values)))


@pytest.mark.parametrize(
    ("metric", "value", "left"),
    [
        (metric_names.CPU_PRESSURE, 0.25, 0.9375),
        (metric_names.MEMORY_PRESSURE, 0.25, 0.9375),
        (metric_names.IO_PRESSURE, 0.25, 0.9375),
        (metric_names.LOAD_PER_CPU, 0.25, 0.9375),
        (metric_names.LOAD_PER_CPU, 7.0, 0.0),
        (metric_names.TEMPERATURE, 20.0, 1.0),
        (metric_names.TEMPERATURE, 60.0, 1.0),
        (metric_names.TEMPERATURE, 77.5, 0.75),
        (metric_names.TEMPERATURE, 95.0, 0.0),
        (metric_names.CPU_PRESSURE, -1e300, 1.0),
        (metric_names.CPU_PRESSURE, 1e300, 0.0),
    ],
)
def test_each_metric_counts_on_its_scale(metric: str, value: float, left: float) -> None:
    assert eased(**{metric: value}) == pytest.approx(left)


def test_a_missing_metric_drops_out_of_the_mean() -> None:
    assert eased(**{metric_names.CPU_PRESSURE: 0.5, metric_names.LOAD_PER_CPU: 0.0}) == 0.875
    assert eased(**{metric_names.CPU_PRESSURE: 0.5}) == 0.75


def test_weights_are_shares() -> None:
    three_to_one = pressure_terms(PressurePolicy(weights=PressureWeights(cpu=3, memory=1)))
    state = NodeState(hardware=Hardware({metric_names.CPU_PRESSURE: 1.0, metric_names.MEMORY_PRESSURE: 0.0}))
    assert headroom(three_to_one, state) == 0.25


def test_weight_0_leaves_a_metric_out() -> None:
    assert (
        headroom(
            pressure_terms(PressurePolicy(weights=PressureWeights(cpu=0))),
            NodeState(hardware=Hardware({metric_names.CPU_PRESSURE: 1})),
        )
        is None
    )


@pytest.mark.parametrize(
    "state", [NodeState(), NodeState(hardware=Hardware({})), NodeState(hardware=Hardware({"x": 1}))]
)
def test_a_node_with_none_of_the_metrics_is_unknown(state: NodeState) -> None:
    assert headroom(EQUAL, state) is None


def test_a_little_pressure_everywhere_counts_less_than_one_resource_that_is_full() -> None:
    """So lightly loaded nodes score alike, and the scheduler's own scores spread pods over them."""
    assert eased(**{term.metric: term.low + 0.2 * term.span for term in EQUAL}) == pytest.approx(0.96)
    assert eased(**{term.metric: term.low + (n == 0) * term.span for n, term in enumerate(EQUAL)}) == pytest.approx(0.8)


@given(st.dictionaries(st.sampled_from([term.metric for term in EQUAL]), st.floats(allow_nan=False), min_size=1))
def test_no_report_leaves_0_and_1(values: dict[str, float]) -> None:
    left = eased(**values)
    assert left is not None
    assert 0.0 <= left <= 1.0


def test_only_fresh_reports_count_and_the_others_say_why(make: "Make") -> None:
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


def test_weight_0_switches_the_score_off(make: "Make") -> None:
    policy = Policy(scores=ScoresPolicy(pressure=PressurePolicy(weight=0)))
    assert PressureScore().score(make.pod(), ["n"], make.facts({}, policy)) is None


def test_a_policy_that_changes_is_heard_at_once_with_the_same_memo(make: "Make") -> None:
    facts = make.facts({"n": make.state({}, {metric_names.CPU_PRESSURE: 1.0, metric_names.MEMORY_PRESSURE: 0.0})})
    changed = type(facts)(
        facts.snapshot,
        Policy(scores=ScoresPolicy(pressure=PressurePolicy(weights=PressureWeights(cpu=6)))),
        facts.now,
        facts.views,
    )
    assert PressureScore().score(make.pod(), ["n"], facts).values == {"n": 0.5}
    assert PressureScore().score(make.pod(), ["n"], changed).values == {"n": 0.25}


def test_the_evidence_is_what_the_node_reported(make: "Make") -> None:
    facts = make.facts({"n": make.state({}, {metric_names.CPU_PRESSURE: 0.25, "other": 1.0})})
    measured = PressureScore().evidence(make.pod(), ["n", "absent"], facts).measured
    assert {name: values for name, values in measured.items() if values} == {metric_names.CPU_PRESSURE: {"n": 0.25}}
