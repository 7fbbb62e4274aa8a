"""Re-placement as a story: a cluster, a delay that changes, and what is done a second later."""

from typing import Any

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import LabelSelector
from leadsman.cluster.model import Cluster, ClusterPod, DisruptionBudget, Quota, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.planning.moves.mover import MoveResult
from leadsman.planning.replacement_plan import ReplacementMemory, ReplacementSettings
from leadsman.published.moves import MOVES
from tests.leadsman.planning.moves.movable_pods import GIB, node, owned_pod
from tests.leadsman.planning.replacement.simulated_cluster import AT_ONCE, SimulatedCluster

HOLD_60 = ReplacementSettings(hold_seconds=60.0, look_again_seconds=0.0)


def pod(name: str, where: str, gib: int = 6, **more: Any) -> ClusterPod:
    """Of a Deployment of its own. delay: reference → ms."""
    bounds = {f"delay_{reference}": str(ms) for reference, ms in more.pop("delay", {}).items()}
    fields = {"labels": {"app": name, **bounds}, "phase": "Running" if where else "Pending", **more}
    return owned_pod(name, where, Resources(100, gib * GIB, 1), **fields)


def matrix(**rtt_ms: float) -> dict[str, dict[str, float]]:
    """a_b=10: between a and b, both ways."""
    rows: dict[str, dict[str, float]] = {}
    for pair, value in rtt_ms.items():
        a, b = pair.split("_")
        rows.setdefault(a, {})[b] = value
        rows.setdefault(b, {})[a] = value
    return rows


def drifted(settings: ReplacementSettings = AT_ONCE, **more: Any) -> SimulatedCluster:
    """A pod on `b`, bound to `a` within 5 ms, is at 9 ms; `c` is at 3 ms and `d` at 7."""
    cluster = cluster_of([node("a", 1), node("b"), node("c"), node("d")], [pod("web", "b", delay={"a": 5}, **more)])
    return SimulatedCluster(cluster, matrix(a_b=9, a_c=3, a_d=7), settings)


def full_edge(**more: Any) -> SimulatedCluster:
    """The edge scheduler's req1 and req3: a pod that could be 15 ms away has edge-1, and another one needs it."""
    nodes = [node("edge-1"), node("edge-2"), node("edge-3")]
    in_the_way = pod("req1", "edge-1", delay={"edge-1": 25}, **more)
    pods = [in_the_way, pod("req3", "", delay={"edge-1": 1}), pod("two", "edge-2")]
    return SimulatedCluster(cluster_of(nodes, pods), matrix(**{"edge-1_edge-2": 10, "edge-1_edge-3": 15}))


def results(simulated: SimulatedCluster) -> list[MoveResult]:
    return [ended.result for plan in simulated.plans for ended in plan.ended]


def nodes_of(cluster: Cluster) -> dict[str, str]:
    """Owner's name → node, of the pods that stay."""
    staying = (each for each in cluster.pods.values() if "app" in each.labels and not each.terminating)
    return {each.labels["app"]: each.node for each in staying}


def test_nothing_is_done_before_the_hold_time_is_over() -> None:
    simulated = drifted(settings=HOLD_60)
    simulated.run(60)
    assert not any(plan.actions for plan in simulated.plans)
    assert simulated.second().actions


def test_a_move_is_cancelled_when_the_delay_is_back_before_the_eviction() -> None:
    simulated = drifted()
    simulated.second()
    simulated.matrix = matrix(a_b=4, a_c=3, a_d=7)
    simulated.run(3)
    assert results(simulated) == [MoveResult.CANCELLED]
    assert not simulated.evicted
    assert len(simulated.cluster.pods) == 1


@pytest.mark.parametrize("clock_ahead_seconds", [0, 3600])
def test_a_move_is_rolled_back_when_its_room_is_not_held_in_time(clock_ahead_seconds: int) -> None:
    """Also where the leader that began it had another clock."""
    simulated = drifted()
    simulated.now += clock_ahead_seconds
    simulated.plan()
    simulated.now -= clock_ahead_seconds
    thief = pod("thief", "c", gib=7)
    simulated.cluster = simulated.cluster.with_pod(thief, "c")
    simulated.run(40)
    assert results(simulated) == [MoveResult.ROLLED_BACK]
    assert not simulated.evicted
    assert set(simulated.cluster.pods) == {"web", "thief"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"owner_kind": "", "owner_uid": ""}, "no controller"),
        ({"owner_kind": "DaemonSet"}, "DaemonSet"),
        ({"owner_kind": "Job"}, "Job"),
        ({"owner_kind": "Node"}, "static pod"),
        ({"owner_kind": "StatefulSet", "local_volumes": True}, "keeps data on its node"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "safe-to-evict"),
        ({"priority": 2_000_000_000}, "critical"),
    ],
)
def test_what_must_stay_is_never_moved_and_the_report_says_why(fields: dict[str, Any], why: str) -> None:
    simulated = drifted(**fields)
    simulated.run(3)
    (report,) = simulated.plans[-1].no_fix.values()
    assert why in report.why
    assert not simulated.evicted
    in_the_way = full_edge(**fields)
    in_the_way.run(5)
    assert not in_the_way.evicted


@pytest.mark.parametrize("fields", [{"disruptions_allowed": 0}, {"disruptions_allowed": 1, "observed": False}])
def test_a_disruption_budget_that_allows_nothing_is_obeyed_and_named(fields: dict[str, Any]) -> None:
    simulated = drifted()
    budget = DisruptionBudget("shop", "keep", LabelSelector(), **fields)
    simulated.cluster = replace(simulated.cluster, budgets={("shop", "keep"): budget})
    simulated.run(3)
    (report,) = simulated.plans[-1].no_fix.values()
    assert "PodDisruptionBudget keep allows no eviction" in report.why
    assert not simulated.evicted
    starting = replace(simulated.cluster.pods["web"], phase="Pending")
    simulated.cluster = simulated.cluster.changed(pods={"web": starting})
    simulated.run(3)
    assert simulated.evicted, "the Eviction API asks no budget about a pod that is pending"


def test_a_pod_whose_successor_a_quota_would_refuse_is_not_evicted_and_the_quota_named() -> None:
    """Its owner could make none, and one pod less would run."""
    full = {("shop", "small"): Quota("shop", "small", {"pods": 1}, {"pods": 1})}
    over_its_bound, in_the_way = drifted(), full_edge()
    for simulated in (over_its_bound, in_the_way):
        simulated.cluster = replace(simulated.cluster, quotas=full)
        simulated.run(5)
        assert not simulated.evicted
    (report,) = over_its_bound.plans[-1].no_fix.values()
    assert "quota small leaves 0 of pods while it ends" in report.why


def test_no_fix_names_the_bound_the_delay_the_nearest_candidate_and_what_would_fix_it() -> None:
    simulated = drifted()
    simulated.matrix = matrix(a_b=9, a_c=6, a_d=7)
    simulated.cluster = simulated.cluster.with_pod(pod("big", "a", gib=1), "a")
    simulated.run(2)
    (report,) = [each for each in simulated.plans[-1].no_fix.values() if each.name == "web"]
    assert report.text == (
        "bound a within 5 ms, delay 9 ms (by matrix): no other node can take it. Nearest is node a: it keeps the bound"
        " and lacks 6 GiB of memory. To fix it, free 6 GiB of memory on node a."
    )
    simulated.cluster = simulated.cluster.changed(nodes={"a": None}, pods={"big": None})
    simulated.run(2)
    (report,) = simulated.plans[-1].no_fix.values()
    assert "Nearest is node c: its delay to a is 6 ms, 1 ms over the bound." in report.text
    assert report.text.endswith("To fix it, bring a node within 5 ms of a, or raise the bound to 6 ms.")


def test_a_node_that_was_left_is_not_gone_back_to_within_the_cooldown() -> None:
    simulated = drifted()
    simulated.run(10)
    simulated.matrix = matrix(a_b=4, a_c=9, a_d=7)
    simulated.run(100)
    assert nodes_of(simulated.cluster) == {"web": "c"}
    simulated.run(600)
    assert nodes_of(simulated.cluster) == {"web": "b"}


def test_an_owner_whose_pods_came_back_twice_is_given_up_and_the_report_says_so() -> None:
    simulated = drifted()
    simulated._choose = lambda _, nodes: "b" if "b" in nodes else nodes[-1]
    simulated._may_have = lambda pod: ["c"] if pod.uid.startswith("hold-") else ["b"]  # type: ignore[method-assign]
    simulated.run(2000)
    assert results(simulated) == [MoveResult.RETURNED] * 2
    (report,) = simulated.plans[-1].no_fix.values()
    assert "came back 2 times" in report.why


def test_room_is_made_for_a_pending_pod_by_moving_one_also_by_leaders_that_follow_each_other() -> None:
    simulated = full_edge()
    for _ in range(15):
        simulated.second()
        text = MOVES.encode(simulated.memory.state)
        simulated.memory = ReplacementMemory(MOVES.decode(text))
    assert nodes_of(simulated.cluster) == {"req1": "edge-3", "req3": "edge-1", "two": "edge-2"}
    assert simulated.evicted == ["req1"]
    assert results(simulated) == [MoveResult.REPLACED]
