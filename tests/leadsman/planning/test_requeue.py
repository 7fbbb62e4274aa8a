"""Which node is touched, and when, so that kube-scheduler retries refused pods; the filters are the extender's own."""

import pytest
from msgspec import structs

import leadsman.planning.requeue as requeue
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.cluster.model import ClusterPod
from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs, DeviceInputs, Reservation, WorkloadIndex
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DevicesPolicy, Policy
from leadsman.planning.bounded_pods import wait_reason
from leadsman.planning.requeue import NO_MEMORY, TOUCH_DELAYS_SECONDS, plan_requeue, without_own
from leadsman.state.metric_names import SRIOV_LIMITED, SRIOV_LIMITED_FUNCTIONS, SRIOV_LINK_HEADROOM
from tests.leadsman.decision import make
from tests.leadsman.planning.measured import measured

NODES = ("a", "b", "c")


def inputs(now=100.0, **to_a):
    """to_a: node → its RTT to node a, in ms."""
    return measured(now, {"a": to_a})


def pod(name="p", **labels):
    return ClusterPod(name, "ns", name, labels=labels or {"delay_a": "25"})


class Planner:
    """Plans in turn; `touched` says which node the last plan touches, "" for none."""

    def __init__(self, *pods):
        self.pods, self.memory = pods, NO_MEMORY

    def plan(self, now, judge=filter_nodes, **to_a):
        plan = plan_requeue(self.pods, NODES, inputs(now, **to_a), self.memory, judge)
        self.memory = plan.memory
        return plan

    def touched(self, now, **to_a):
        action = self.plan(now, **to_a).action
        return action.node if action else ""


@pytest.fixture
def planner():
    """One that has seen the pod refused on b and c, and whose first touches are over."""
    one = Planner(pod())
    for now in (0.0, 10.0, 40.0):
        one.plan(now, b=80.0, c=80.0)
    return one


def test_a_node_that_healed_is_touched_at_once(planner) -> None:
    """And twice more, in case the extender saw the change later."""
    touched = {second: planner.touched(100.0 + second, b=5.0, c=80.0) for second in range(60)}
    assert {second: node for second, node in touched.items() if node} == dict.fromkeys(TOUCH_DELAYS_SECONDS, "b")
    assert TOUCH_DELAYS_SECONDS[0] == 0


def test_a_pod_that_is_first_seen_after_the_cause_has_gone_is_retried() -> None:
    assert Planner(pod()).touched(100.0, b=5.0) == "a"


def test_a_pod_that_uses_nothing_of_the_extender_is_not_retried_when_first_seen() -> None:
    assert Planner(pod(app="web")).touched(100.0, b=5.0) == ""


def test_a_label_that_no_filter_of_ours_reads_tells_pods_apart_only_where_plugins_are_asked() -> None:
    one, other = (
        structs.replace(
            pod(f"db-{number}", **{"delay_a": "25", "apps.kubernetes.io/pod-index": str(number)}),
            workload="statefulset/db",
        )
        for number in (0, 1)
    )
    assert without_own(one) == without_own(other)
    assert without_own(one, sees_labels=True) != without_own(other, sees_labels=True)


def test_kinds_of_pods_for_which_there_is_no_time_come_first_in_the_next_plan() -> None:
    pods = [pod(f"p{number}", delay_a=str(number + 1)) for number in range(10)]
    turns = iter([True] * 6 + [False])
    first = plan_requeue(pods, NODES, inputs(100.0), NO_MEMORY, has_time=lambda: next(turns))
    assert sum(state.filtered_at == 100.0 for state in first.memory.values()) == 6
    second = plan_requeue(pods, NODES, inputs(101.0), first.memory)
    assert sum(state.filtered_at == 101.0 for state in second.memory.values()) == 10


def test_what_a_plugin_raises_is_told_and_costs_the_pods_their_touch_alone() -> None:
    def broken(*_):
        raise RuntimeError("boom")

    plan = Planner(pod()).plan(100.0, broken, b=5.0)
    assert plan.action is None
    assert [(str(fault), fault.__notes__) for fault in plan.faults] == [
        ("boom", ["raised while filtering nodes for pods like ns/p"])
    ]


def test_what_is_remembered_of_kinds_of_pods_is_bounded_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeue, "MAX_SIGNATURES", 5)
    pods = [pod(f"p{number}", delay_a="25") for number in range(10)]
    plan = plan_requeue(pods, NODES, inputs(b=5.0), NO_MEMORY)
    again = plan_requeue(pods[::-1], NODES, inputs(b=5.0), plan.memory)
    assert again.memory.keys() == plan.memory.keys()
    assert (len(again.memory), len({id(state.passing_nodes) for state in again.memory.values()})) == (5, 1)


CARD, MEMORY = "gpu.intel.com/i915", "gpu.intel.com/memory.max"
HALF_A_CARD = DeviceDemand(({CARD: 1, MEMORY: 5},))


def with_card(now: float, *bound: str, reserved: int = 0) -> DecisionInputs:
    """Node b has one card, of which each of these pods has half, or half is reserved for them."""
    card = NodeDevices({CARD: 20, MEMORY: 10}, {"gpu.intel.com/cards": "card0"}, dict.fromkeys(bound, HALF_A_CARD))
    reservations = tuple(Reservation(f"reserved-{each}", HALF_A_CARD) for each in range(reserved))
    devices = DeviceInputs(followed=True, nodes={"b": card}, reservations=reservations)
    return structs.replace(inputs(now), devices=devices)


@pytest.mark.parametrize(
    "freed",
    [with_card(100.0, reserved=1), with_card(100.0, "x"), with_card(100.0)],
    ids=["a pod ended", "a reservation ended", "both ended"],
)
def test_a_pod_refused_for_a_card_is_tried_again_when_a_card_has_room(freed: DecisionInputs) -> None:
    memory, pods = NO_MEMORY, [ClusterPod("p", "ns", "p", devices=HALF_A_CARD)]
    for now in (0.0, 50.0):
        full = plan_requeue(pods, NODES, with_card(now, "x", reserved=1), memory)
        assert full.action is None
        memory = full.memory
    plan = plan_requeue(pods, NODES, freed, memory)
    assert plan.action is not None
    assert plan.action.node == "b"


def test_a_pod_of_which_only_the_bandwidth_is_counted_is_retried_when_first_seen() -> None:
    link = {SRIOV_LINK_HEADROOM: 1e10, SRIOV_LIMITED: 0.0, SRIOV_LIMITED_FUNCTIONS: 0.0}
    policy = Policy(devices=DevicesPolicy(virtual_functions=("openshift.io/sriov",)))
    devices = DeviceInputs(followed=True, nodes={"b": NodeDevices({"openshift.io/sriov": 1})})
    roomy = make.facts({"b": make.state(metrics=link)}, policy, devices=devices)
    pods = [ClusterPod("p", "ns", "p", devices=DeviceDemand(bandwidth_bits=2 * 10**9))]
    plan = plan_requeue(pods, NODES, roomy, NO_MEMORY)
    assert plan.action is not None
    assert plan.action.node == "b"


# What is said of a pod that waits: the bound, the nearest node, by how much it misses, what would help.

EDGES = ["edge-2", "edge-3", "edge-4"]


def measured_edges() -> DecisionInputs:
    """edge-2 is 12.5 ms and edge-3 80 ms from edge-1, 90 ms and 1 ms from edge-9; no other delay is known."""
    return measured(100.0, {"edge-1": {"edge-2": 12.5, "edge-3": 80.0}, "edge-9": {"edge-2": 90.0, "edge-3": 1.0}})


def reason(**bounds: str) -> tuple[str, str]:
    labels = {f"delay_{name.replace('_', '-')}": ms for name, ms in bounds.items()}
    return wait_reason(PodInfo("shop", "cart", "uid-1", labels), EDGES, measured_edges())


def test_the_nearest_node_is_named_with_what_it_misses_and_what_would_help() -> None:
    assert reason(edge_1="10") == (
        "edge-1: edge-2",
        "no node is within 10 ms of edge-1: the nearest, edge-2, is 12.5 ms away, 2.5 ms too far; raise the bound to"
        " 12.5 ms or more, or run edge-1 nearer to a node with room",
    )


def test_of_bounds_that_different_nodes_keep_none_is_said_to_be_kept_nowhere() -> None:
    text = reason(edge_1="15", edge_9="5")[1]
    assert text.startswith("no node keeps all its bounds; edge-3 misses them least: from edge-1 it is 80 ms away")


@pytest.mark.parametrize(
    "pod",
    [
        PodInfo("shop", "cart", annotations={"leadsman.dev/delay": ""}),
        PodInfo("shop", "cart", labels={"delay_db": "10"}, workload="deployment/db"),
    ],
)
def test_a_pod_whose_bounds_hold_anywhere_waits_for_something_else(pod: PodInfo) -> None:
    """A first replica that is to be near the others, or no bound at all."""
    inputs = structs.replace(measured_edges(), workloads=WorkloadIndex({("shop", "db"): {"deployment": ()}}, 100.0))
    assert wait_reason(pod, EDGES, inputs)[0].startswith("within: ")


def test_a_pod_with_nodes_within_its_bounds_is_refused_for_another_reason() -> None:
    subject, text = reason(edge_1="20")
    assert subject == "within: edge-2"
    assert text.startswith("1 of 3 nodes are within its delay bounds, edge-2 is the nearest; something else refuses")


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"edge_1": "-1"}, "correct it on the workload's pod template"),
        ({"nobody": "5"}, "start it, or correct the name in the bound"),
    ],
)
def test_a_bound_that_cannot_be_checked_says_what_to_correct(bounds: dict[str, str], said: str) -> None:
    assert said in reason(**bounds)[1]


def test_a_pod_whose_delays_are_all_unknown_says_so_and_not_that_they_are_too_long() -> None:
    pod = PodInfo("shop", "cart", "uid-1", {"delay_edge-1": "10"})
    subject, text = wait_reason(pod, ["edge-4"], measured_edges())
    assert subject == "unknown: edge-1"
    assert "no node's delay to edge-1 is known" in text
