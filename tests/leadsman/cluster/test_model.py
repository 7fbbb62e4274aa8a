"""A cluster that was derived step by step is the one that is built of the same objects."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.budgets import DisruptionBudget
from leadsman.cluster.model import UNBOUND, Overlay, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.selectors import LabelSelector, Operator, Requirement

NODES = [ClusterNode(name, allocatable=Resources(1000, 100, 10)) for name in ("a", "b", "c")]
WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))

changes = st.dictionaries(st.integers(0, 9), st.none() | st.integers(), max_size=4)


def pod(uid, node=UNBOUND, millis=100, **more):
    return ClusterPod(uid, "default", uid, node, requests=Resources(millis, 10, 1), **more)


def everything(cluster):
    return (
        dict(cluster.nodes),
        dict(cluster.pods),
        {name: sorted(one.uid for one in there.pods) for name, there in _inhabited(cluster)},
        {name: cluster.requested(name) for name, _ in _inhabited(cluster)},
    )


def _inhabited(cluster):
    return [(name, there) for name, there in cluster.pods_by_node.items() if there.pods]


@given(st.dictionaries(st.integers(0, 9), st.integers()), st.lists(changes, max_size=6))
def test_an_overlay_is_the_mapping_with_its_changes(base: dict[int, int], steps: list[dict[int, int | None]]) -> None:
    plain, overlay = dict(base), Overlay(base)
    for step in steps:
        overlay = overlay.replaced(step)
        plain = {key: value for key, value in {**plain, **step}.items() if value is not None}
    assert dict(overlay) == plain
    assert len(overlay) == len(plain)
    assert [key in overlay for key in range(10)] == [key in plain for key in range(10)]


placements = st.lists(st.tuples(st.sampled_from("pqrst"), st.sampled_from(["a", "b", "c", UNBOUND, None])), max_size=12)


@given(placements)
def test_a_derived_cluster_is_the_one_built_of_the_same_objects(steps) -> None:
    derived, placed = cluster_of(NODES, [pod("p", "a"), pod("q")]), {"p": "a", "q": UNBOUND}
    for uid, node in steps:
        derived = derived.without_pod(uid) if node is None else derived.with_pod(pod(uid), node)
        placed[uid] = node
    rebuilt = cluster_of(NODES, [pod(uid, node) for uid, node in placed.items() if node is not None])
    assert everything(derived) == everything(rebuilt)


def test_budgets_of_a_pod_are_those_of_its_namespace_that_select_it() -> None:
    budgets = [DisruptionBudget("default", "web", WEB), DisruptionBudget("other", "web", WEB)]
    cluster = cluster_of(NODES, [], budgets=budgets)
    assert [each.namespace for each in cluster.budgets_of(pod("p", labels={"app": "web"}))] == ["default"]
    assert cluster.budgets_of(pod("p", labels={"app": "db"})) == ()
