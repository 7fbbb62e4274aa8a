"""Refuses nodes on which no single device, or no link, has what the pod asks of one.

A pod that asks for neither passes, and so does every pod while devices are not followed. One whose annotation cannot be
read, or asks for what nobody counts, is refused everywhere: it asked for something. So is one while nobody knows what
is reserved for other pods, because two replicas must never give the same away.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import structs

from leadsman.cluster.devices import cards
from leadsman.cluster.devices.cards import CardQuestion
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NO_DEVICES, LinkReading, NodeDevices, link_headroom_bits
from leadsman.decision.inputs import DecisionInputs, Reservation
from leadsman.decision.model import Evidence, PodInfo, Refusal
from leadsman.state import metric_names
from leadsman.state.snapshot import Freshness

# Evaluates what one pod asks of cards and links against the nodes, for refusals and explanations alike.

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

Fit = tuple[Refusal | None, int | None]
"""Why the pod does not fit a node's devices, None: it does; and what its link has left, None: that is unknown."""


def evaluate(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> dict[str, Fit]:
    """Tells how the pod fits each node; a node not known to have devices has none, and fits a pod that asks
    for none."""
    link = asks_link(pod.devices, inputs)
    card = cards.asks_of_one_card(pod.devices)
    reservations = _Reservations([each for each in inputs.devices.reservations if each.uid != pod.uid], card)
    requests = list(cards.card_requests(pod.devices, card)) if card else []
    question = CardQuestion(card, requests, reservations.demands) if requests else None
    fits = dict[str, Fit]()
    for name in nodes:
        node = inputs.devices.nodes.get(name, NO_DEVICES)
        reserved = reservations.on(name, node)
        refusal, headroom = _link_fit(name, node, pod.devices, reserved[0], inputs) if link else (None, None)
        if question and refusal is None:
            refusal = _card_refusal(node, question, reserved)
        fits[name] = refusal, headroom
    return fits


_Reserved = tuple[Sequence[DeviceDemand], int]
"""Demands that are reserved at one place, and how many cards they ask for together."""


class _Reservations:
    """Says what is reserved for other pods, by where they may go. card: the resource that is counted."""

    def __init__(self, reservations: Sequence[Reservation], card: str) -> None:
        self.demands, self._card = [each.demand for each in reservations], card
        self._all, self._uids = reservations, {each.uid for each in reservations}
        self._named = {node for each in reservations for node in each.nodes or ()}
        self._anywhere = self._reserved(each.demand for each in reservations if each.nodes is None)

    def on(self, name: str, node: NodeDevices) -> _Reserved:
        """Returns the demands that may come to the node beside those of its bound pods."""
        if name not in self._named and self._uids.isdisjoint(node.pods):
            return self._anywhere
        return self._reserved(each.demand for each in self._all if each.uid not in node.pods and each.may_be_on(name))

    def _reserved(self, demands: Iterable[DeviceDemand]) -> _Reserved:
        listed = list(demands)
        return listed, sum(each.amount(self._card) for each in listed)


def asks_link(demand: DeviceDemand, inputs: DecisionInputs) -> bool:
    """Tells whether the pod's bandwidth is a matter of virtual functions and headroom."""
    settings = inputs.policy.devices
    asked = demand.bandwidth_bits
    return bool(settings.virtual_functions) and asked is not None and asked >= settings.threshold_bits


def needs_reservation(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Tells whether the answer depends on reservations for other pods, which Kubernetes does not count."""
    if pod.bad_demand or not inputs.devices.followed:
        return False
    return asks_link(pod.devices, inputs) or bool(cards.asks_of_one_card(pod.devices))


def without_victims(pod: PodInfo, victims: Mapping[str, Collection[str]], inputs: DecisionInputs) -> DecisionInputs:
    """Returns the inputs as they are once the pod has evicted its victims, as far as its devices depend on that.

    victims: node → UIDs. What their virtual functions may send is gone when the agent reports that it is.
    """
    devices = inputs.devices
    if not victims or not needs_reservation(pod, inputs):
        return inputs
    gone = set(chain.from_iterable(victims.values()))
    left = tuple(each for each in devices.reservations if each.uid not in gone)
    freed = {node: devices.nodes[node].without(uids) for node, uids in victims.items() if node in devices.nodes}
    return structs.replace(inputs, devices=structs.replace(devices, reservations=left)).with_devices_of(freed)


def unserved_bandwidth(pod: PodInfo, inputs: DecisionInputs) -> str:
    """Returns what nobody does for the bandwidth that the pod asks; "" when that is held to it, or it asks for none."""
    resources = inputs.policy.devices.virtual_functions
    if pod.devices.bandwidth_bits is None:
        return ""
    if not resources:
        return "not looked at: the policy's devices.virtual_functions is empty"
    if asks_link(pod.devices, inputs) and not any(map(pod.devices.amount, resources)):
        return f"only added up for each link: the pod requests none of {', '.join(resources)}, so no rate is set for it"
    return ""


def _link_fit(
    name: str, node: NodeDevices, demand: DeviceDemand, reserved: Sequence[DeviceDemand], inputs: DecisionInputs
) -> Fit:
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
        sharing = [
            each
            for each in (*node.pods.values(), *reserved)
            if (each.bandwidth_bits or 0) >= threshold or any(map(each.amount, resources))
        ]
        headroom = link_headroom_bits(reading, sharing, resources)
    if headroom is None:
        return UNKNOWN_HEADROOM, None
    return None if (demand.bandwidth_bits or 0) <= headroom else NO_HEADROOM, headroom


def link_reading(name: str, inputs: DecisionInputs) -> LinkReading | None:
    """Returns what the node's agent reports of its physical functions; None: nothing, or nothing fresh."""
    state = inputs.snapshot.nodes.get(name)
    if state is None or state.hardware is None or inputs.freshness_of(name) is not Freshness.FRESH:
        return None
    values = state.hardware.values
    headroom, limited_bits = values.get(metric_names.SRIOV_LINK_HEADROOM), values.get(metric_names.SRIOV_LIMITED)
    limited = values.get(metric_names.SRIOV_LIMITED_FUNCTIONS)
    if headroom is None or limited_bits is None or limited is None:
        return None
    return LinkReading(int(headroom), int(limited_bits), int(limited))


def _card_refusal(node: NodeDevices, question: CardQuestion, reserved: _Reserved) -> Refusal | None:
    room, (demands, reserved_cards) = question.room_on(node), reserved
    if room is None:
        return Refusal(NAME, f"the node's labels do not say how much {question.scarcest} one of its devices has")
    if reserved_cards <= room.beside:
        return None
    if (room.fits or len(question.requests) > 1) and question.fits_after(node, demands):
        return None
    return Refusal(NAME, f"no single device has the {question.scarcest} left that the pod asks of one")


def largest_left(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> dict[str, float]:
    """Returns how much each node's freest card has left of what the pod asks of one card, reservations not counted; a
    node that does not say what its cards have is absent."""
    card = cards.asks_of_one_card(pod.devices)
    requests = list(cards.card_requests(pod.devices, card)) if card else []
    if not requests:
        return {}
    scarcest = CardQuestion(card, requests, ()).scarcest
    left = {name: cards.cards_left(inputs.devices.nodes.get(name, NO_DEVICES), card) for name in nodes}
    return {
        name: float(max((each.left.get(scarcest, 0) for each in of_node), default=0))
        for name, of_node in left.items()
        if of_node is not None
    }


class DeviceFilter:
    """Refuses nodes whose devices cannot serve the pod."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        if not inputs.devices.followed:
            return {}
        if pod.bad_demand:
            return dict.fromkeys(nodes, Refusal(NAME, pod.bad_demand))
        if not needs_reservation(pod, inputs):
            return {}
        if inputs.devices.reservations_problem:
            return dict.fromkeys(nodes, Refusal(NAME, inputs.devices.reservations_problem))
        fits = evaluate(pod, nodes, inputs)
        return {node: refusal for node, (refusal, _) in fits.items() if refusal is not None}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns how much one device or link has left, where that is known."""
        if not inputs.devices.followed:
            return Evidence()
        unserved = unserved_bandwidth(pod, inputs)
        of_pod = {"bandwidth": unserved} if unserved else {}
        if not needs_reservation(pod, inputs):
            return Evidence(pod=of_pod)
        headroom = {node: float(bits) for node, (_, bits) in evaluate(pod, nodes, inputs).items() if bits is not None}
        left = largest_left(pod, nodes, inputs)
        measured = {"link_headroom_bits_per_second": headroom, "largest_left_on_one_device": left}
        return Evidence({quantity: values for quantity, values in measured.items() if values}, pod=of_pod)
