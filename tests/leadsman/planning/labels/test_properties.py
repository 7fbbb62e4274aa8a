"""Whatever the policies and the metrics: applied plans leave nothing to plan, and no trace without policies."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.telemetry.taspolicy import TasPolicy, parse_taspolicy
from leadsman.planning.labels.label_plan import LabelLimits
from tests.leadsman.planning.labels.label_cluster import Cluster

NODES = ("a", "b", "c")
FREE = LabelLimits(
    max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, leave_ratio=1.0, max_flips_per_hour=10**6
)

rules = st.fixed_dictionaries(
    {
        "metricname": st.sampled_from(["m", "n"]),
        "operator": st.sampled_from(["Equals", "LessThan", "GreaterThan"]),
        "target": st.integers(-2, 2),
        "labels": st.lists(st.sampled_from(["x=1", "x=2", "y=1", "bad", "=="]), max_size=2),
    }
)
strategies = st.fixed_dictionaries(
    {"rules": st.lists(rules, max_size=3), "logicalOperator": st.sampled_from(["anyOf", "allOf"])}
)
plain = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["p", "q"]), "namespace": st.sampled_from(["one", "two"])}
        ),
        "spec": st.fixed_dictionaries(
            {
                "metrics": st.fixed_dictionaries({"failMode": st.sampled_from(["open", "closed"])}),
                "strategies": st.fixed_dictionaries({"deschedule": strategies, "labeling": strategies}),
            }
        ),
    }
)
policies = st.lists(plain.map(parse_taspolicy), max_size=3, unique_by=lambda each: each.key)
metrics = st.fixed_dictionaries({m: st.dictionaries(st.sampled_from(NODES), st.integers(-3, 3)) for m in ("m", "n")})
limits = st.sampled_from([FREE, LabelLimits(), LabelLimits(hold_seconds=0), LabelLimits(leave_ratio=1.0)])


@settings(max_examples=50)
@given(
    rounds=st.lists(st.tuples(policies, metrics, st.sampled_from([0.0, 1.0, 61.0, 3700.0])), max_size=5), chosen=limits
)
def test_after_a_plan_is_applied_there_is_nothing_left_to_plan(rounds: Sequence[Any], chosen: LabelLimits) -> None:
    cluster = Cluster(*NODES, limits=chosen)
    for given_policies, given_metrics, after in rounds:
        cluster.step(given_policies, given_metrics, after=after)
        assert cluster.step(given_policies, given_metrics, after=0.0).patches == ()


@settings(max_examples=50)
@given(rounds=st.lists(st.tuples(policies, metrics), max_size=5), chosen=limits)
def test_without_policies_every_node_is_as_it_was(rounds: Sequence[Any], chosen: LabelLimits) -> None:
    cluster = Cluster(*NODES, limits=chosen)
    before = dict(cluster.nodes)
    for given_policies, given_metrics in rounds:
        cluster.step(given_policies, given_metrics)
    cluster.step([], {}, after=0.0)
    assert cluster.nodes == before


@settings(max_examples=50)
@given(last=policies, values=metrics, rounds=st.lists(policies, max_size=4))
def test_the_labels_are_those_of_the_last_policies_whatever_was_before(
    last: Sequence[TasPolicy], values: Any, rounds: Sequence[Any]
) -> None:
    """Without hysteresis, all metrics known, one policy a name: so that no history may matter."""
    full = {m: {node: values[m].get(node, 0) for node in NODES} for m in ("m", "n")}
    unique = list({each.name: each for each in last}.values())
    fresh, used = Cluster(*NODES, limits=FREE), Cluster(*NODES, limits=FREE)
    for before in rounds:
        used.step(before, full)
    for cluster in (fresh, used):
        for _ in range(10):
            cluster.step(unique, full)
    assert [fresh.ours(node) for node in NODES] == [used.ours(node) for node in NODES]
