"""Models a node's cards, and finds whether what a pod asks of one card fits on one.

GPU Aware Scheduling's terms (github.com/intel/platform-aware-scheduling/tree/master/gpu-aware-scheduling): the label
`gpu.intel.com/cards` names a node's cards, its allocatable amounts are those of all cards together, and a container
that asks for n of `gpu.intel.com/i915` takes an n-th of its other amounts on each of n different cards. NVIDIA's labels
(gpu-feature-discovery): `nvidia.com/gpu.count` and `nvidia.com/gpu.memory`, MiB of each.

The card of a bound pod is that of its annotation `gas-container-cards`. A pod without one is counted on the card where
it fits tightest, the oldest pod first: nobody but the device plugin knows better.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from leadsman.cluster.devices.demand import CARD_RESOURCES, INTEL_CARDS, NVIDIA_CARD, DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices

INTEL_PREFIX = "gpu.intel.com/"
INTEL_MEMORY = f"{INTEL_PREFIX}memory.max"
NVIDIA_MEMORY = "nvidia.com/gpu.memory"


class Card(Struct, frozen=True):
    """A card with what is left of it: resource → amount, the card's own resource among them (1 unless it is shared)."""

    name: str
    left: Mapping[str, int]

    def has(self, amounts: Mapping[str, int]) -> bool:
        for resource, amount in amounts.items():  # noqa: SIM110  # half as long as all() of a generator, on 40,000 cards
            if amount > self.left.get(resource, 0):
                return False
        return True

    def without(self, amounts: Mapping[str, int]) -> "Card":
        return Card(self.name, {resource: amount - amounts.get(resource, 0) for resource, amount in self.left.items()})


MOST_CARDS = 256
"""No node has more. A label may say a billion."""


class CardRequest(Struct, frozen=True):
    """Asks for so many different cards for one container, and these amounts of each.

    cards: those that it was given; (): nobody says.
    """

    count: int
    amounts: Mapping[str, int]
    cards: tuple[str, ...] = ()


def card_requests(demand: DeviceDemand, resource: str) -> Iterator[CardRequest]:
    """Returns what each container asks of cards counted as `resource`; a share of an amount over several is
    rounded up."""
    memory = NVIDIA_MEMORY if resource == NVIDIA_CARD else INTEL_MEMORY
    for position, container in enumerate(demand.containers):
        if count := container.get(resource, 0):
            amounts = {resource: 1}
            if resource != NVIDIA_CARD:
                shared = (name for name in container if name.startswith(INTEL_PREFIX) and name not in INTEL_CARDS)
                amounts |= {name: -(-container[name] // count) for name in shared}
            if demand.memory_bytes is not None:
                amounts[memory] = demand.memory_bytes
            yield CardRequest(count, amounts, demand.cards[position] if position < len(demand.cards) else ())


def asks_of_one_card(demand: DeviceDemand) -> str:
    """Returns the card resource of which more than a number is asked; "": none, so Kubernetes' count suffices."""
    for resource in CARD_RESOURCES:
        if any(len(request.amounts) > 1 for request in card_requests(demand, resource)):
            return resource
    return ""


def whole_cards(node: NodeDevices, resource: str) -> Sequence[Card] | None:
    """Returns the node's cards as they are without any pod; None: its labels do not say what one of them has."""
    total = node.allocatable.get(resource, 0)
    if resource == NVIDIA_CARD:
        count, mib = (_positive(node.labels.get(f"{NVIDIA_CARD}.{label}", "")) for label in ("count", "memory"))
        if not 0 < count <= MOST_CARDS or not mib:
            return None
        return [
            Card(f"gpu{number}", {resource: -(-total // count), NVIDIA_MEMORY: mib << 20}) for number in range(count)
        ]
    names = _intel_names(node.labels)
    if not names:
        return None
    amounts = {name: amount for name, amount in node.allocatable.items() if name.startswith(INTEL_PREFIX)}
    each = {name: amount // len(names) for name, amount in amounts.items() if name not in INTEL_CARDS}
    return [Card(name, {resource: -(-total // len(names)), **each}) for name in names]


def _intel_names(labels: Mapping[str, str]) -> list[str]:
    """Reads `gpu.intel.com/cards: card0.card1`, or, of later versions, `gpu.intel.com/gpu-numbers: 0.1`. Numbers that
    are too long for a label go on in `gpu-numbers2`, `gpu-numbers3` …, each of which begins with Z."""
    if cards := labels.get(f"{INTEL_PREFIX}cards"):
        return sorted(set(cards.split(".")))
    numbers, part = labels.get(f"{INTEL_PREFIX}gpu-numbers", ""), 2
    while (more := labels.get(f"{INTEL_PREFIX}gpu-numbers{part}", "")).startswith("Z"):
        numbers, part = numbers + more[1:], part + 1
    return [f"card{number}" for number in sorted(set(numbers.split("."))) if number]


def _positive(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def prepare_cards(node: NodeDevices) -> None:
    """Computes what the node's pods leave of its cards, so that no request has to."""
    for resource in CARD_RESOURCES:
        if node.allocatable.get(resource):
            cards_left(node, resource)


def cards_left(node: NodeDevices, resource: str, demands: Sequence[DeviceDemand] = ()) -> Sequence[Card] | None:
    """Returns the cards with what the node's pods and these demands leave of them; None as in `whole_cards`.

    What the node's pods leave is computed once: a node's devices are replaced when they change, and never altered.
    """
    if resource not in node.cards:
        whole = whole_cards(node, resource)
        node.cards[resource] = whole, None if whole is None else _left(whole, whole, node.pods.values(), resource)
    kept: tuple[Sequence[Card] | None, Sequence[Card] | None] = node.cards[resource]
    whole, left = kept
    if whole is None or left is None or not demands:
        return left
    if any(demand.cards for demand in demands):  # a known card counts first, also before what pods were counted on
        return _left(whole, whole, (*node.pods.values(), *demands), resource)
    return _left(left, whole, demands, resource)


def _left(
    cards: Sequence[Card], whole: Sequence[Card], demands: Iterable[DeviceDemand], resource: str
) -> Sequence[Card]:
    requests = [
        request for demand in demands for request in _as_held(card_requests(demand, resource), demand, resource, whole)
    ]
    for request in sorted(requests, key=lambda request: not request.cards):  # a known card counts first
        cards = _taken(cards, request)
    return cards


def _as_held(
    requests: Iterator[CardRequest], demand: DeviceDemand, resource: str, cards: Sequence[Card]
) -> Iterator[CardRequest]:
    """A pod on a shared NVIDIA card that does not say how much memory it uses may use all of it."""
    for request in requests:
        if resource == NVIDIA_CARD and demand.memory_bytes is None:
            whole = {NVIDIA_MEMORY: max(card.left[NVIDIA_MEMORY] for card in cards)}
            yield structs.replace(request, amounts={**request.amounts, **whole})
        else:
            yield request


def _taken(cards: Sequence[Card], request: CardRequest) -> Sequence[Card]:
    """Returns the cards after the request has what it was given, or, where nobody says, what fits; if nothing does,
    what has most left: it is on some card."""
    chosen = set(request.cards) or {card.name for card in fitting_cards(cards, request)}
    if not chosen:
        memory = max(request.amounts, key=lambda name: name.endswith("memory.max") or name == NVIDIA_MEMORY)
        fullest_last = sorted(cards, key=lambda card: -card.left.get(memory, 0))
        chosen = {card.name for card in fullest_last[: request.count]}
    return [card.without(request.amounts) if card.name in chosen else card for card in cards]


def fitting_cards(cards: Sequence[Card], request: CardRequest) -> Sequence[Card]:
    """Chooses the cards that the request would get, which are those it fills most; () when too few fit."""
    usable = usable_cards(cards, request)
    if len(usable) < request.count:
        return ()
    return sorted(usable, key=lambda card: (_spare(card, request), card.name))[: request.count]


def usable_cards(cards: Sequence[Card], request: CardRequest) -> Sequence[Card]:
    """Returns the cards that the request fits on."""
    return [card for card in cards if card.has(request.amounts)]


def _spare(card: Card, request: CardRequest) -> int:
    return sum(card.left[resource] - amount for resource, amount in request.amounts.items())


def place(cards: Sequence[Card], requests: Sequence[CardRequest]) -> Sequence[Card] | None:
    """Returns the cards after all requests of a pod; None when one of them fits on none."""
    for request in requests:
        chosen = {card.name for card in fitting_cards(cards, request)}
        if not chosen:
            return None
        cards = [card.without(request.amounts) if card.name in chosen else card for card in cards]
    return cards


def fits(cards: Sequence[Card], requests: Sequence[CardRequest]) -> bool:
    """Tells whether `place` finds cards for all requests, without finding those of the last."""
    left = place(cards, requests[:-1])
    return left is not None and len(usable_cards(left, requests[-1])) >= requests[-1].count


# What a pod asks of single cards must fit on a node beside reservations of others, which may go anywhere.
#
# Placing every reservation on each of 5,000 nodes takes a quarter of a second. Mostly it does not matter where they go,
# and how many reservations certainly leave room is computed once for the pods of a template, and kept with the node's
# devices.

_ALL_OF_A_CARD = 2**63

MAX_KEPT = 16
"""Rooms of one node: of so many templates of pods, beside so many kinds of reservations."""


class CardRoom(Struct, frozen=True):
    """Tells what room a node's cards have for a pod, beside its bound pods.

    fits: whether it fits while nothing is reserved. beside: how many times pods with reservations may take of a card so
    that it certainly fits, wherever they take it; negative: it does not fit, or only where they take nothing.
    """

    fits: bool
    beside: float


class CardQuestion:
    """Asks nodes for room for one pod.

    resource: the cards' own. requests: of the pod's containers; one at least. reserved: for others.
    """

    def __init__(self, resource: str, requests: Sequence[CardRequest], reserved: Iterable[DeviceDemand]) -> None:
        self.resource, self.requests = resource, requests
        self._largest = largest_request(reserved, resource)
        self._key = msgspec.msgpack.encode((resource, requests, sorted(self._largest.items())))

    @property
    def scarcest(self) -> str:
        """Returns the resource, other than the card itself, of which the pod asks most of one card."""
        others = [
            (each[name], name)
            for each in (request.amounts for request in self.requests)
            for name in each
            if name != self.resource
        ]
        return max(others)[1] if others else self.resource

    def room_on(self, node: NodeDevices) -> CardRoom | None:
        """Returns the room on a node; None: its labels do not say what one of its cards has."""
        room: CardRoom | None = node.rooms.get(self._key)
        if room is None:
            left = cards_left(node, self.resource)
            if left is None:
                return None
            room = CardRoom(fits(left, self.requests), most_beside(left, self.requests, self._largest))
            if len(node.rooms) >= MAX_KEPT:
                node.rooms.clear()
            node.rooms[self._key] = room
        return room

    def fits_after(self, node: NodeDevices, reserved: Sequence[DeviceDemand]) -> bool:
        """Tells whether the pod fits when these are placed on the node first, each where it fits tightest."""
        return fits(cards_left(node, self.resource, reserved) or (), self.requests)


def largest_request(demands: Iterable[DeviceDemand], resource: str) -> Mapping[str, int]:
    """Returns the most of each amount that one request of these demands takes of one card."""
    largest: dict[str, int] = {}
    for demand in demands:
        for request in card_requests(demand, resource):
            for name, amount in request.amounts.items():
                largest[name] = max(amount, largest.get(name, 0))
            if resource == NVIDIA_CARD and demand.memory_bytes is None:
                largest[NVIDIA_MEMORY] = _ALL_OF_A_CARD
    return largest


def most_beside(cards: Sequence[Card], requests: Sequence[CardRequest], largest: Mapping[str, int]) -> float:
    """Counts how many times other pods may take at most `largest` of a card so that all requests certainly fit,
    wherever they take it; negative: they do not certainly fit."""
    asked, most = sum(request.count for request in requests), math.inf
    for request in requests:
        until_full = sorted(_times_until_full(card, request, largest) for card in usable_cards(cards, request))
        to_fill = until_full[: max(0, len(until_full) - asked + 1)]  # then too few of the cards are left to it
        most = min(most, sum(to_fill) - 1)
    return most


def _times_until_full(card: Card, request: CardRequest, largest: Mapping[str, int]) -> float:
    """Says how often `largest` is taken of the card before the request no longer fits."""
    times = math.inf
    for resource, amount in request.amounts.items():
        if taken := largest.get(resource):
            times = min(times, (card.left[resource] - amount) // taken + 1)
    return times
