"""What is done about dead nodes, step by step; and what is not."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.constraints import Taint
from leadsman.cluster.model import Claim, Cluster, ClusterNode, ClusterPod, Location, Storage, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.planning import recovery_plan
from leadsman.planning.failover.node_verdict import (
    NodeHealth,
    NodeVerdict,
    Signal,
    Signals,
    Timeline,
    Truth,
    VerdictReason,
)
from leadsman.published.self_healing import PodBackup, RecoveryState
from tests.leadsman.planning.moves.movable_pods import owned_pod

NOW = 1_000_000.0
NOTHING_DONE = RecoveryState()


def verdict(state: NodeHealth, message: str = "", fresh: bool = True, *at: float) -> NodeVerdict:
    signals = Signals(*[Signal(Truth.FALSE if fresh else Truth.TRUE, "")] * 3)
    return NodeVerdict("", state, 0.0, VerdictReason.NO_EVIDENCE, message, signals, Timeline(*at))


HEALTHY = verdict(NodeHealth.HEALTHY)
DEAD = verdict(NodeHealth.DEAD, "4 of 4 peers lost it", False, NOW - 15, NOW - 12, NOW - 1)
BUDGET = recovery_plan.RecoveryBudget()
NAMES = [f"edge-{number}" for number in range(1, 11)]
COVERED = {"web-1": PodBackup("edge-2", "")}


def node(name: str, **stated: Any) -> ClusterNode:
    return ClusterNode(name, uid=f"uid-{name}", allocatable=Resources(4000, 2**33, 20), **stated)


def pod(name: str, on: str = "edge-1", **stated: Any) -> ClusterPod:
    given = {"owner_uid": "rs", "created_at": 1.0} | stated
    return owned_pod(name, on, Resources(100, 2**30, 1), "web", **given)


def cluster(*pods: ClusterPod, **of_edge_1: Any) -> Cluster:
    return cluster_of([node("edge-1", **of_edge_1), *map(node, NAMES[1:])], pods)


def observed(**others: NodeVerdict) -> dict[str, NodeVerdict]:
    return dict.fromkeys(NAMES, HEALTHY) | {name.replace("_", "-"): each for name, each in others.items()}


def step(
    there: Cluster,
    nodes: dict[str, NodeVerdict] | None = None,
    state: RecoveryState = NOTHING_DONE,
    backups: dict[str, PodBackup] = COVERED,
    now: float = NOW,
) -> recovery_plan.RecoveryPlan:
    return recovery_plan.plan_recovery(nodes or observed(edge_1=DEAD), there, backups, state, BUDGET, now)


def tainted(there: Cluster, name: str = "edge-1") -> Cluster:
    return there.changed(nodes={name: replace(there.nodes[name], taints=(Taint(recovery_plan.UNREACHABLE_TAINT),))})


def after_taint(there: Cluster, backups: dict[str, PodBackup] = COVERED) -> recovery_plan.RecoveryPlan:
    """The second step: the taint is there."""
    return step(tainted(there), state=step(there, backups=backups).state, backups=backups)


def kinds(actions: Iterable[recovery_plan.RecoveryAction]) -> list[type]:
    return [type(action) for action in actions]


def test_a_dead_node_is_refused_and_tainted_before_any_pod_is_deleted() -> None:
    plan = step(cluster(pod("web-1")))
    assert plan.actions == (recovery_plan.TaintNode("edge-1", "uid-edge-1", "4 of 4 peers lost it"),)
    assert plan.state.refused == {"edge-1": "4 of 4 peers lost it"}
    assert plan.state.spent == (NOW,)
    again = step(cluster(pod("web-1")), state=plan.state, now=NOW + 1)
    assert (again.actions, again.state.spent) == (plan.actions, plan.state.spent), "which spends no more"


def test_once_tainted_room_is_held_and_the_pod_deleted() -> None:
    plan = after_taint(cluster(pod("web-1")))
    assert kinds(plan.actions) == [recovery_plan.DeletePod]
    [hold] = plan.state.holds
    assert (hold.node, hold.owner_uid, hold.until) == ("edge-2", "rs", NOW + BUDGET.hold_seconds)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"owner_kind": "StatefulSet"}, "a StatefulSet's pod must not run twice"),
        ({"owner_kind": "Job"}, "a Job may lose its work"),
        ({"annotations": {"leadsman.dev/failover": "off"}}, "its annotation leadsman.dev/failover is off"),
        ({"owner_kind": "DaemonSet"}, "its owner is a DaemonSet"),
        ({"owner_kind": "", "owner_uid": ""}, "it has no controller"),
        ({"owner_kind": "Node"}, "it is a static pod"),
        ({"claims": ("data",)}, "claim data can be attached to one node only"),
    ],
)
def test_what_must_not_run_twice_or_would_not_come_back_stays(stated: dict[str, Any], reason: str) -> None:
    storage = Storage(claims={("shop", "data"): Claim("shop", "data", access_modes=("ReadWriteOnce",))})
    plan = after_taint(replace(cluster(pod("web-1", **stated)), storage=storage))
    assert plan.actions == ()
    assert plan.stays["web-1"].startswith(reason)


def test_a_stateful_pod_goes_once_somebody_says_that_the_node_is_off() -> None:
    out = Taint("node.kubernetes.io/out-of-service", effect="NoExecute")
    there = cluster(pod("web-1", owner_kind="StatefulSet"), taints=(out, Taint(recovery_plan.UNREACHABLE_TAINT)))
    assert kinds(step(there).actions) == [recovery_plan.DeletePod]


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"unschedulable": True}, "it is cordoned"),
        ({"annotations": {"leadsman.dev/failover": "off"}}, "annotation leadsman.dev/failover is off"),
        ({"taints": (Taint("node.cloudprovider.kubernetes.io/shutdown"),)}, "it is being shut down"),
    ],
)
def test_a_node_that_somebody_works_on_or_that_says_no_is_left_alone(stated: dict[str, Any], reason: str) -> None:
    """Also once it was taken up."""
    for before in (NOTHING_DONE, step(cluster(pod("web-1"))).state):
        plan = step(cluster(pod("web-1"), **stated), state=before)
        assert plan.actions == ()
        assert plan.state.withheld["edge-1"].startswith(reason)
        assert "edge-1" in plan.state.refused


def test_of_three_that_die_one_is_failed_over_and_two_are_withheld() -> None:
    plan = step(cluster(pod("web-1")), observed(edge_1=DEAD, edge_3=DEAD, edge_4=DEAD))
    assert kinds(plan.actions) == [recovery_plan.TaintNode]
    assert set(plan.state.withheld) == {"edge-3", "edge-4"}
    assert plan.state.withheld["edge-3"] == "nodes failed over in 600 s: 1 of 1 allowed"


def test_nothing_is_done_while_most_of_the_zone_is_silent() -> None:
    there, zone = cluster(pod("web-1")), Location("a", "1")
    dead, well = replace(DEAD, location=zone), replace(HEALTHY, location=zone)
    suspect = replace(verdict(NodeHealth.SUSPECT, "?"), location=zone)
    plan = step(there, observed(edge_1=dead, edge_2=suspect, edge_3=well))
    assert plan.state.withheld == {"edge-1": "2 of 3 nodes of zone a are not healthy"}
    # Each new text would be a write, an Event and a series of metrics.
    again = step(there, observed(edge_1=dead, edge_2=suspect, edge_3=suspect), plan.state)
    assert again.state.withheld == plan.state.withheld


def test_nothing_is_done_while_most_agents_are_silent() -> None:
    silent = {name.replace("-", "_"): verdict(NodeHealth.HEALTHY, fresh=False) for name in NAMES[3:]}
    told_before = RecoveryState(withheld={"edge-1": "2 of 3 nodes of zone a are not healthy"})
    plan = step(cluster(pod("web-1")), observed(edge_1=DEAD, **silent), told_before)
    assert plan.state.withheld == {"edge-1": "only 2 of 10 agents report"}


def test_a_node_that_returns_is_let_in_after_a_while_and_stays_refused_until_then() -> None:
    there, dead = tainted(cluster()), step(cluster()).state
    back = step(there, observed(), dead, now=NOW + 1)
    assert back.actions == ()
    assert "edge-1" in back.state.refused
    healthy = step(there, observed(), back.state, now=NOW + 1 + BUDGET.return_seconds)
    assert healthy.actions == (recovery_plan.UntaintNode("edge-1", "uid-edge-1", "the node is healthy again"),)
    assert step(cluster(), observed(), healthy.state, now=NOW + 60).state.refused == {}


def test_a_node_that_gives_a_sign_of_life_loses_nothing_more_until_it_is_called_dead_anew() -> None:
    """Its kubelet renews its Lease again, or a new leader knows nothing of it yet; hours later another node has room
    for its pod."""
    there, dead = tainted(cluster(pod("web-1"))), step(cluster(pod("web-1"))).state
    silent = verdict(NodeHealth.SUSPECT, fresh=False)
    assert step(there, observed(edge_1=verdict(NodeHealth.HEALTHY, fresh=False)), dead, now=NOW + 7200).actions == ()
    assert step(there, observed(edge_1=silent), dead, now=NOW + 7200).actions, "which a new leader knows no better"
    for seconds, seen in enumerate([verdict(NodeHealth.SUSPECT), silent, silent], start=7200):
        plan = step(there, observed(edge_1=seen), dead, now=NOW + seconds)
        assert plan.actions == ()
        dead = plan.state
    assert step(there, state=dead, now=NOW + 7300).actions


def test_a_deletion_that_is_refused_is_asked_for_again_while_its_room_is_held_for_long_enough() -> None:
    """Then others are let on the backup, whose placeholders still hold the room, until it is asked for once more."""
    state, asked = after_taint(cluster(pod("web-1"))).state, list[int]()
    for seconds in range(1, 130):
        before, plan = state, step(tainted(cluster(pod("web-1"))), state=state, now=NOW + seconds)
        state = plan.state
        assert state == before or seconds in (60, 120), "each new state is a write"
        if plan.actions:
            asked.append(seconds)
            [hold] = state.holds
            assert hold.until >= NOW + seconds + BUDGET.hold_seconds / 2
    assert asked == [*range(1, 31), *range(60, 91), *range(120, 130)]


def test_the_timeline_follows_the_replacement() -> None:
    there = cluster(pod("web-1"))
    deleted = after_taint(there).state
    pending = pod("web-2", on="", created_at=5.0)
    bound = replace(pending, node="edge-2")
    ready = replace(bound, ready=True)
    for number, (shown, bound_at, running_at) in enumerate(
        [(pending, None, None), (bound, NOW + 2, None), (ready, NOW + 2, NOW + 3)], start=1
    ):
        now_there = tainted(cluster(pod("web-1", terminating=True), shown))
        deleted = step(now_there, state=deleted, now=NOW + number).state
        recovered = deleted.dead["edge-1"].pods["web-1"]
        assert (recovered.bound_at, recovered.running_at) == (bound_at, running_at)
    assert (recovered.replacement, recovered.replaced_on) == ("web-2", "edge-2")
    assert deleted.holds == ()
    steps = deleted.dead["edge-1"].steps
    assert [*steps] == ["suspect", "dead", "tainted", "deleted", "bound", "running"]
    assert [*steps.values()] == sorted(steps.values())
    assert steps["running"] - steps["bound"] == 1.0


def test_pods_that_run_again_are_forgotten_and_the_times_of_the_last_stay() -> None:
    """A node stays dead for good, and the state of all such nodes must fit into one ConfigMap."""
    old = [pod(f"web-{number}", owner_uid=f"rs-{number % 40}") for number in range(120)]
    there = cluster(*old)
    state = after_taint(there, {each.uid: PodBackup("edge-2", "") for each in old}).state
    made = [replace(each, uid=f"{each.uid}-b", name=f"{each.name}-b", node="edge-2", created_at=5.0) for each in old]
    for number, running in enumerate((119, 120), start=1):
        shown = [replace(each, ready=place < running) for place, each in enumerate(made)]
        going = [replace(each, terminating=True) for each in old]
        state = step(tainted(cluster(*going, *shown)), state=state, now=NOW + number).state
        assert len(state.dead["edge-1"].pods) <= (120 - running) * 3 + 3
    steps = state.dead["edge-1"].steps
    assert (steps["bound"], steps["running"]) == (steps["deleted"] + 1, steps["deleted"] + 2)
    assert state.holds == ()


def test_pods_that_do_not_run_again_in_time_are_forgotten_and_counted() -> None:
    """Their owners are gone, or what they make never becomes ready."""
    old = [pod(f"web-{number}", owner_uid=f"rs-{number}") for number in range(40)]
    state = after_taint(cluster(*old), {each.uid: PodBackup("edge-2", "") for each in old}).state
    made = [replace(each, uid=f"{each.uid}-b", name=f"{each.name}-b", node="edge-2", created_at=5.0) for each in old]
    stuck = cluster(*(replace(each, terminating=True) for each in old), *(replace(made[0], ready=True), *made[1:30]))
    for seconds, kept in ((599, 40), (600, 1)):
        later = step(tainted(stuck), state=state, now=NOW + seconds).state.dead["edge-1"]
        assert (len(later.pods), later.given_up, "running" in later.steps) == (kept, 40 - kept, False)


@given(
    deaths=st.lists(st.tuples(st.sampled_from(NAMES), st.floats(1, 1200)), max_size=30),
    restarts=st.sets(st.integers(0, 30)),
)
def test_never_more_nodes_than_the_budget_allows_within_any_window(
    deaths: list[tuple[str, float]], restarts: set[int]
) -> None:
    state, now, acted = RecoveryState(), NOW, list[float]()
    for name, pause in deaths:
        now += pause
        dead = replace(DEAD, timeline=Timeline(NOW - 15, NOW - 12, now))
        plan = recovery_plan.plan_recovery(observed() | {name: dead}, cluster(), COVERED, state, BUDGET, now)
        acted += [now] * (len(plan.state.dead.keys() - state.dead.keys()))
        state = replace(plan.state, dead={})  # as if each of them returned at once
    for at in acted:
        assert sum(at <= other < at + BUDGET.window_seconds for other in acted) <= 1


def test_a_suspect_node_whose_evidence_grows_changes_no_state() -> None:
    first = step(cluster(), observed(edge_1=verdict(NodeHealth.SUSPECT, "silent for 5 s")))
    again = step(cluster(), observed(edge_1=verdict(NodeHealth.SUSPECT, "silent for 6 s")), first.state)
    assert again.state == first.state
    unknown = verdict(NodeHealth.HEALTHY)
    unknown = replace(unknown, signals=Signals(*[Signal(Truth.UNKNOWN, "")] * 3))
    assert (
        step(cluster(), observed(edge_1=unknown), first.state).state == first.state
    )  # what a new leader knows at first
    assert step(cluster(), observed(), first.state).state.refused == {}
