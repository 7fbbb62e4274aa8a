"""Evaluates what one pod asks of devices against the nodes: once, for refusals, scores and explanations alike."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.devices import cards
from leadsman.cluster.devices.bandwidth import LinkReading, link_headroom_bits
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NO_DEVICES, NodeDevices
from leadsman.decision.freshness import freshness_of
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.state import metric_names
from leadsman.state.snapshot import Freshness

NAME = "devices"

NO_VIRTUAL_FUNCTION = Refusal(
    NAME, "no SR-IOV virtual function is free on the node for the bandwidth that the pod asks"
)
UNKNOWN_HEADROOM = Refusal(
    NAME,
    "what is left of the node's link is not known: its agent does not report its virtual functions' max_tx_rate"
    " (docs/devices.md), or pods on it have neither a rate nor a bandwidth",
)
NO_HEADROOM = Refusal(NAME, "the node's link has not the bandwidth left that the pod asks")


class NodeFit(Struct, frozen=True):
    """How the pod fits one node's devices.

    refusal: why it does not; None: it does.
    spare_ratio: of the devices that it asks for, the share that is free after it; None: it asks for none that is known.
    has_functions: whether the node has SR-IOV virtual functions.
    headroom_bits: left of the link before the pod; None: not asked or not known.
    largest_left: the most of the asked resource that one card has left; None: not asked or not known. Where the pod
        fits whichever cards promised pods take, these are not counted.
    """

    refusal: Refusal | None = None
    spare_ratio: float | None = None
    has_functions: bool = False
    headroom_bits: int | None = None
    largest_left: int | None = None


class DeviceEvaluation(Struct, frozen=True):
    """The pod against every node that was asked about.

    card: the resource of which it asks more than a number of one card; "": none.
    asks_link: whether it asks for bandwidth at or above the policy's threshold.
    """

    card: str
    asks_link: bool
    by_node: dict[str, NodeFit]


def evaluate(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> DeviceEvaluation:
    """A node that is not known to have devices has none: it fits a pod that asks for none of them."""
    link = asks_link(pod.devices, inputs)
    card = cards.asks_of_one_card(pod.devices)
    requests = list(cards.card_requests(pod.devices, card)) if card else []
    largest = cards.largest_request((grant.demand for grant in inputs.devices.grants), card)
    by_node = {node: _fit(node, pod, card, requests, link, largest, inputs) for node in nodes}
    return DeviceEvaluation(card, link, by_node)


def asks_link(demand: DeviceDemand, inputs: DecisionInputs) -> bool:
    """Whether the pod's bandwidth is a matter of virtual functions and headroom."""
    settings = inputs.policy.devices
    asked = demand.bandwidth_bits
    return bool(settings.virtual_functions) and asked is not None and asked >= settings.threshold_bits


def needs_grant(demand: DeviceDemand, inputs: DecisionInputs) -> bool:
    """Whether the answer depends on what other pods were promised, which Kubernetes does not count."""
    return asks_link(demand, inputs) or bool(cards.asks_of_one_card(demand))


def _fit(
    name: str,
    pod: PodInfo,
    card: str,
    requests: Sequence[cards.CardRequest],
    link: bool,
    largest: Mapping[str, int],
    inputs: DecisionInputs,
) -> NodeFit:
    node = inputs.devices.nodes.get(name, NO_DEVICES)
    promised = [
        grant.demand
        for grant in inputs.devices.grants
        if grant.uid != pod.uid and grant.uid not in node.pods and grant.may_be_on(name)
    ]
    has_functions = any(node.allocatable.get(resource) for resource in inputs.policy.devices.virtual_functions)
    refusal, headroom_bits, largest_left = None, None, None
    if link:
        refusal, headroom_bits = _link_fit(name, node, pod.devices, promised, inputs)
    if requests and refusal is None:
        refusal, largest_left = _card_fit(node, card, requests, promised, largest)
    return NodeFit(refusal, _spare_ratio(node, pod.devices), has_functions, headroom_bits, largest_left)


def _link_fit(
    name: str, node: NodeDevices, demand: DeviceDemand, promised: Sequence[DeviceDemand], inputs: DecisionInputs
) -> tuple[Refusal | None, int | None]:
    """kube-scheduler counts the functions that a pod requests itself, with those of pods that it has just placed; here
    only a pod that requests none needs one to be free."""
    resources = inputs.policy.devices.virtual_functions
    requests_one = any(map(demand.amount, resources))
    if not any(node.allocatable.get(each) if requests_one else node.free(each) > 0 for each in resources):
        return NO_VIRTUAL_FUNCTION, None
    reading = link_reading(name, inputs)
    headroom = None
    if reading is not None:
        threshold = inputs.policy.devices.threshold_bits
        sharing = [each for each in (*node.pods.values(), *promised) if _uses_link(each, resources, threshold)]
        headroom = link_headroom_bits(reading, sharing, resources)
    if headroom is None:
        return UNKNOWN_HEADROOM, None
    return (None if (demand.bandwidth_bits or 0) <= headroom else NO_HEADROOM), headroom


def _uses_link(demand: DeviceDemand, resources: Sequence[str], threshold_bits: int) -> bool:
    return any(map(demand.amount, resources)) or (demand.bandwidth_bits or 0) >= threshold_bits


def link_reading(name: str, inputs: DecisionInputs) -> LinkReading | None:
    """What the node's agent reports of its physical functions; None: nothing, or nothing fresh."""
    state = inputs.snapshot.nodes.get(name)
    if state is None or state.hardware is None or freshness_of(name, inputs) is not Freshness.FRESH:
        return None
    names = (metric_names.SRIOV_LINK_HEADROOM, metric_names.SRIOV_LIMITED, metric_names.SRIOV_LIMITED_FUNCTIONS)
    values = [state.hardware.values.get(each) for each in names]
    headroom, limited_bits, limited = values
    if headroom is None or limited_bits is None or limited is None:
        return None
    return LinkReading(int(headroom), int(limited_bits), int(limited))


def _card_fit(
    node: NodeDevices,
    card: str,
    requests: Sequence[cards.CardRequest],
    promised: Sequence[DeviceDemand],
    largest: Mapping[str, int],
) -> tuple[Refusal | None, int | None]:
    others = [(amount, name) for each in requests for name, amount in each.amounts.items() if name != card]
    asked = max(others)[1] if others else card
    left = cards.cards_left(node, card)
    if left is None:
        return Refusal(NAME, f"the node's labels do not say how much {asked} one of its devices has"), None
    takes = sum(each.amount(card) for each in promised)
    if takes and not cards.fits_beside(left, requests, takes, largest):
        left = cards.cards_left(node, card, promised) or ()
    most_left = max((each.left.get(asked, 0) for each in left if each.usable), default=0)
    if not cards.fits(left, requests):
        allowed = " and that its gas- annotations let it have" if any(each.steered for each in requests) else ""
        return Refusal(NAME, f"no single device has the {asked} left that the pod asks of one{allowed}"), most_left
    return None, most_left


def _spare_ratio(node: NodeDevices, demand: DeviceDemand) -> float | None:
    """By the claims' driver or by the first card resource that the pod asks for."""
    if demand.claims:
        total = sum(driver.total for driver in node.drivers.values())
        free = sum(driver.free for driver in node.drivers.values())
        return free / total if total else None
    asked = next((each for each in cards.CARD_RESOURCES if demand.amount(each)), "")
    total = node.allocatable.get(asked, 0)
    if not total:
        return None
    return max(0, node.free(asked) - demand.amount(asked)) / total
