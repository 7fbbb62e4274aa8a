"""Fit on one device and headroom of a link in decisions: who is refused, for which reason, and who is not asked."""

from typing import Any

import msgspec
import pytest

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import ClaimRequests, DeviceCount, NodeDevices, RequestedWay
from leadsman.decision.decide import decide
from leadsman.decision.devices.device_filter import (
    NO_HEADROOM,
    NO_VIRTUAL_FUNCTION,
    UNKNOWN_HEADROOM,
    DeviceFilter,
    without_victims,
)
from leadsman.decision.devices.device_scores import FitScore
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import AskedDevices, DecisionInputs, DeviceInputs, Reservation
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DevicesPolicy, Policy
from leadsman.state import metric_names
from tests.leadsman.decision import make

GB, G = 10**9, 10**9
I915, MEMORY, VF = "gpu.intel.com/i915", "gpu.intel.com/memory.max", "openshift.io/sriov"
CARDS = NodeDevices({I915: 20, MEMORY: 16 * GB}, {"gpu.intel.com/cards": "card0.card1"})
FIVE_GB = DeviceDemand(({I915: 1, MEMORY: 5 * GB},))
TWO_GBIT = DeviceDemand(({VF: 1},), bandwidth_bits=2 * G)
FUNCTIONS = NodeDevices({VF: 8})
POLICY = Policy(devices=DevicesPolicy(virtual_functions=(VF,)))
LINK = {
    metric_names.SRIOV_LINK_HEADROOM: 10.0 * G,
    metric_names.SRIOV_LIMITED: 0.0,
    metric_names.SRIOV_LIMITED_FUNCTIONS: 0.0,
}


def asking(demand: DeviceDemand, **more: Any) -> PodInfo:
    return PodInfo("default", "pod-1", "uid-1", devices=demand, **more)


def with_pods(node: NodeDevices, *demands: DeviceDemand) -> NodeDevices:
    return msgspec.structs.replace(node, pods={f"bound-{each}": pod for each, pod in enumerate(demands)})


def reasons(pod: PodInfo, nodes: dict[str, NodeDevices], inputs: DecisionInputs, **devices: Any) -> dict[str, str]:
    inputs = msgspec.structs.replace(inputs, devices=DeviceInputs(True, nodes, **devices))
    return {node: each.reason for node, each in DeviceFilter().refusals(pod, list(nodes), inputs).items()}


def fit(pod: PodInfo, inputs: DecisionInputs) -> tuple[dict[str, float], set[str], str]:
    """Scores by node, nodes that have none, and what is explained."""
    nodes = list(inputs.devices.nodes)
    score = FitScore().score(pod, nodes, inputs)
    assert score is not None
    return dict(score.values), set(score.unknown), format_explanation(explain(decide(pod, nodes, inputs), inputs))


NO_CARD = f"no single device has the {MEMORY} left that the pod asks of one"


def test_the_third_pod_of_5_gb_is_refused_with_the_reason_and_the_explanation_says_what_is_left() -> None:
    nodes = {"full": with_pods(CARDS, FIVE_GB, FIVE_GB), "half": with_pods(CARDS, FIVE_GB)}
    assert reasons(asking(FIVE_GB), nodes, make.facts({})) == {"full": NO_CARD}
    inputs = make.facts({}, devices=DeviceInputs(True, nodes))
    text = format_explanation(explain(decide(asking(FIVE_GB), list(nodes), inputs), inputs))
    assert NO_CARD in text
    assert "LARGEST_LEFT_ON_ONE_DEVICE" in text


def test_a_pod_that_is_not_seen_bound_yet_counts_on_every_node_where_it_may_be() -> None:
    nodes = {"a": with_pods(CARDS, FIVE_GB), "b": with_pods(CARDS, FIVE_GB)}
    anywhere, on_a = Reservation("other", FIVE_GB), Reservation("other", FIVE_GB, frozenset({"a"}))
    assert reasons(asking(FIVE_GB), nodes, make.facts({}), reservations=(anywhere,)) == {"a": NO_CARD, "b": NO_CARD}
    assert reasons(asking(FIVE_GB), nodes, make.facts({}), reservations=(on_a,)) == {"a": NO_CARD}
    own = Reservation("uid-1", FIVE_GB)
    seen_bound = Reservation("bound-0", FIVE_GB)
    assert reasons(asking(FIVE_GB), nodes, make.facts({}), reservations=(own, seen_bound)) == {}


def test_a_node_that_does_not_say_what_one_of_its_cards_has_is_refused_as_unknown() -> None:
    unnamed = NodeDevices(CARDS.allocatable)
    assert reasons(asking(FIVE_GB), {"a": unnamed}, make.facts({})) == {
        "a": f"the node's labels do not say how much {MEMORY} one of its devices has"
    }


def bandwidth_reasons(
    *bound: DeviceDemand, link: dict[str, float] | None = LINK, pod: DeviceDemand = TWO_GBIT, **state: Any
) -> dict[str, str]:
    facts = make.facts({"a": make.state(metrics=link, **state)}, POLICY)
    return reasons(asking(pod), {"a": with_pods(FUNCTIONS, *bound)}, facts)


@pytest.mark.parametrize("bound", range(10))
def test_ten_pods_of_2_gbit_find_room_for_five(bound: int) -> None:
    refused = bandwidth_reasons(*[TWO_GBIT] * bound)
    assert refused == ({} if bound < 5 else {"a": NO_HEADROOM.reason})


def test_the_bandwidth_of_a_pod_that_would_be_evicted_is_free() -> None:
    devices, vip = DeviceInputs(True, {"a": with_pods(FUNCTIONS, *[TWO_GBIT] * 5)}), asking(TWO_GBIT)
    now = make.facts({"a": make.state(metrics=LINK)}, POLICY, devices=devices)
    then = without_victims(vip, {"a": ["bound-0"]}, now)
    assert [set(DeviceFilter().refusals(vip, ["a"], each)) for each in (now, then)] == [{"a"}, set()]


def test_what_the_agent_does_not_report_or_not_freshly_is_unknown() -> None:
    assert bandwidth_reasons(link=None) == {"a": UNKNOWN_HEADROOM.reason}
    assert bandwidth_reasons(link={metric_names.SRIOV_LINK_HEADROOM: 1e10}) == {"a": UNKNOWN_HEADROOM.reason}
    assert bandwidth_reasons(freshness="stale") == {"a": UNKNOWN_HEADROOM.reason}
    assert bandwidth_reasons(DeviceDemand(({VF: 1},))) == {"a": UNKNOWN_HEADROOM.reason}


def test_a_pod_that_asks_for_bandwidth_and_no_function_needs_one_to_be_free() -> None:
    plain = DeviceDemand(bandwidth_bits=2 * G)
    small = DeviceDemand(({VF: 1},), bandwidth_bits=1)
    assert bandwidth_reasons(pod=plain) == {}
    assert bandwidth_reasons(*[small] * 8, pod=plain) == {"a": NO_VIRTUAL_FUNCTION.reason}
    assert reasons(asking(plain), {"none": NodeDevices()}, make.facts({}, POLICY)) == {
        "none": NO_VIRTUAL_FUNCTION.reason
    }


def test_the_explanation_says_what_nobody_does_for_the_bandwidth() -> None:
    def explained(demand: DeviceDemand, policy: Policy) -> str:
        inputs = make.facts({"a": make.state(metrics=LINK)}, policy, devices=DeviceInputs(True, {"a": FUNCTIONS}))
        return " ".join(format_explanation(explain(decide(asking(demand), ["a"], inputs), inputs)).split())

    without_a_function = DeviceDemand(bandwidth_bits=2 * G)
    assert f"the pod requests none of {VF}, so no rate is set for it" in explained(without_a_function, POLICY)
    assert "the policy's devices.virtual_functions is empty" in explained(TWO_GBIT, Policy())
    assert "bandwidth is" not in explained(TWO_GBIT, POLICY)


def test_below_the_threshold_nobody_is_refused_and_nodes_with_functions_are_last() -> None:
    small = asking(DeviceDemand(bandwidth_bits=G - 1))
    nodes = {"functions": FUNCTIONS, "plain": NodeDevices()}
    inputs = make.facts({}, POLICY, devices=DeviceInputs(True, nodes))
    assert DeviceFilter().refusals(small, list(nodes), inputs) == {}
    assert fit(small, inputs)[0] == {"functions": 0.0, "plain": 1.0}


def test_a_value_that_cannot_be_read_is_refused_everywhere() -> None:
    pod = asking(DeviceDemand(), bad_demand="annotation leadsman.dev/bandwidth is '2G'")
    assert reasons(pod, {"a": CARDS}, make.facts({})) == {"a": "annotation leadsman.dev/bandwidth is '2G'"}


def test_a_claim_takes_the_devices_that_it_selects_where_fewest_are_free_after_it() -> None:
    nodes = {
        "empty": NodeDevices(selected={"class gpu": DeviceCount(8, 8)}),
        "begun": NodeDevices(selected={"class gpu": DeviceCount(8, 2)}),
        "other": NodeDevices(drivers={"nic": DeviceCount(8, 8)}),
        "full": NodeDevices(selected={"class gpu": DeviceCount(8, 1)}),
    }
    asked = AskedDevices({"default/c": ClaimRequests(((RequestedWay("gpus", "class gpu", 2),),))})
    inputs = make.facts({}, devices=DeviceInputs(True, nodes, asked=asked))
    values, unknown, text = fit(asking(DeviceDemand(claims=("c",))), inputs)
    assert (values, unknown) == ({"empty": 0.25, "begun": 1.0}, {"other", "full"})
    assert "2 of class gpu" in text


def test_a_claim_that_cannot_be_evaluated_says_why_and_counts_all_devices() -> None:
    nodes = {"begun": NodeDevices(drivers={"gpu.example.com": DeviceCount(8, 2)})}
    claims = {"default/c": ClaimRequests(((RequestedWay("gpus", "class gpu", 2),),))}
    asked = AskedDevices(claims, problems={"class gpu": "a selector cannot be evaluated here: line 1"})
    inputs = make.facts({}, devices=DeviceInputs(True, nodes, asked=asked))
    values, _, text = fit(asking(DeviceDemand(claims=("c",))), inputs)
    assert values == {"begun": 0.75}
    assert "a selector cannot be evaluated here: line 1" in text


def test_a_resource_that_stands_for_a_device_class_is_counted_by_its_devices() -> None:
    nodes = {
        "plugin": NodeDevices({"example.com/gpu": 4}),
        "driver": NodeDevices(selected={"class gpu": DeviceCount(4, 2)}),
        "neither": NodeDevices(),
    }
    asked = AskedDevices(extended={"example.com/gpu": "class gpu"})
    inputs = make.facts({}, devices=DeviceInputs(True, nodes, asked=asked))
    assert fit(asking(DeviceDemand(({"example.com/gpu": 1},))), inputs)[0] == {"plugin": 0.25, "driver": 0.75}
