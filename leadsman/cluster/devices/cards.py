"""Cards of a node, and whether what a pod asks of one card fits on one.

GPU Aware Scheduling's terms (github.com/intel/platform-aware-scheduling/tree/master/gpu-aware-scheduling): the label
`gpu.intel.com/cards` names a node's cards, its allocatable amounts are those of all cards together, and a container
that asks for n of `gpu.intel.com/i915` takes an n-th of its other amounts on each of n different cards. NVIDIA's labels
(gpu-feature-discovery): `nvidia.com/gpu.count` and `nvidia.com/gpu.memory`, MiB of each.

The card of a bound pod is that of its annotation `gas-container-cards`. A pod without one is counted on the card where
it fits tightest, the oldest pod first: nobody but the device plugin knows better.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from leadsman.cluster.devices.demand import CARD_RESOURCES, INTEL_CARDS, NVIDIA_CARD, DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices

INTEL_PREFIX = "gpu.intel.com/"
INTEL_MEMORY = f"{INTEL_PREFIX}memory.max"
INTEL_TILES = f"{INTEL_PREFIX}tiles"
NVIDIA_MEMORY = "nvidia.com/gpu.memory"

_MOST_TILES = 64
"""Of a card; real ones have up to two."""

_TAS_PREFIX = "telemetry.aware.scheduling."


class Card(Struct, frozen=True):
    """A card with what is left of it.

    left: resource → amount, the card's own resource among them (1 unless it is shared).
    usable: a label gas-disable-<card> or gas-deschedule-pods-<card> keeps new pods off.
    preferred: a label gas-prefer-gpu names it.
    numa: the NUMA node that it is on; "": the node's labels do not say.
    """

    name: str
    left: Mapping[str, int]
    usable: bool = True
    preferred: bool = False
    numa: str = ""

    def has(self, amounts: Mapping[str, int]) -> bool:
        for resource, amount in amounts.items():  # noqa: SIM110  # half as long as all() of a generator, on 40,000 cards
            if amount > self.left.get(resource, 0):
                return False
        return True

    def without(self, amounts: Mapping[str, int]) -> "Card":
        left = {resource: amount - amounts.get(resource, 0) for resource, amount in self.left.items()}
        return Card(self.name, left, self.usable, self.preferred, self.numa)


class CardRequest(Struct, frozen=True):
    """What one container asks: so many different cards, these amounts of each.

    cards: those that it was given; (): nobody says.
    allowed: those that alone it may have; (): any. denied: those that it may not have.
    single_numa: whether they must be on one NUMA node.
    """

    count: int
    amounts: Mapping[str, int]
    cards: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    single_numa: bool = False

    @property
    def steered(self) -> bool:
        """Tells whether its annotations say which cards it may have, or may not have."""
        return bool(self.allowed or self.denied or (self.single_numa and self.count > 1))

    def may_have(self, card: str) -> bool:
        return card not in self.denied and (not self.allowed or card in self.allowed)


def card_requests(demand: DeviceDemand, resource: str) -> Iterator[CardRequest]:
    """Returns what each container asks of the cards that are counted as `resource`."""
    for position, container in enumerate(demand.containers):
        count = container.get(resource, 0)
        if count:
            amounts = {resource: 1} | _amounts_of_one(container, resource, count)
            if demand.memory_bytes is not None:
                amounts[memory_resource(resource)] = demand.memory_bytes
            given = demand.cards[position] if position < len(demand.cards) else ()
            yield CardRequest(count, amounts, given, demand.allowed, demand.denied, demand.single_numa)


def memory_resource(resource: str) -> str:
    """The name of a card's memory, in bytes."""
    return NVIDIA_MEMORY if resource == NVIDIA_CARD else INTEL_MEMORY


def _amounts_of_one(container: Mapping[str, int], resource: str, count: int) -> dict[str, int]:
    """Of each card, rounded up."""
    if resource == NVIDIA_CARD:
        return {}
    shared = (name for name in container if name.startswith(INTEL_PREFIX) and name not in INTEL_CARDS)
    return {name: -(-container[name] // count) for name in shared}


def asks_of_one_card(demand: DeviceDemand) -> str:
    """The card resource of which it asks more than a number, or not any card; "": none, so Kubernetes' own count of it
    suffices."""
    for resource in CARD_RESOURCES:
        for request in card_requests(demand, resource):
            if len(request.amounts) > 1 or request.steered:
                return resource
    return ""


def whole_cards(node: NodeDevices, resource: str) -> Sequence[Card] | None:
    """The node's cards as they are without any pod; None: its labels do not say what one of them has."""
    total = node.allocatable.get(resource, 0)
    if resource == NVIDIA_CARD:
        count, mib = (_positive(node.labels.get(f"{NVIDIA_CARD}.{label}", "")) for label in ("count", "memory"))
        if not count or not mib:
            return None
        return [Card(f"gpu{number}", {resource: total // count, NVIDIA_MEMORY: mib << 20}) for number in range(count)]
    names = _intel_names(node.labels)
    if not names:
        return None
    amounts = {name: amount for name, amount in node.allocatable.items() if name.startswith(INTEL_PREFIX)}
    each = {name: amount // len(names) for name, amount in amounts.items() if name not in INTEL_CARDS}
    steering, numa = _Steering(node.labels), _numa_nodes(node.labels)
    return [
        Card(
            name,
            {resource: total // len(names), **each, **_usable_tiles(name, each, steering)},
            name not in steering.unusable,
            name in steering.preferred,
            numa.get(name, ""),
        )
        for name in names
    ]


class _Steering:
    """What TAS's labels say of cards: the key ends with the name of the card, or of a tile as card0_gt1."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.unusable, self.unusable_tiles, self.preferred = set[str](), set[str](), set[str]()
        for label, value in labels.items():
            key = label.rpartition("/")[2] if label.startswith(_TAS_PREFIX) else ""
            if key == "gas-prefer-gpu":
                self.preferred.add(value)
            for prefix in ("gas-disable-", "gas-deschedule-pods-"):
                if key.startswith(prefix):
                    card = key.removeprefix(prefix)
                    self.unusable |= _pci_group(card, labels) if value == "PCI_GROUP" else {card}
            for prefix in ("gas-tile-disable-", "gas-tile-deschedule-"):
                if key.startswith(prefix):
                    self.unusable_tiles.add(key.removeprefix(prefix))


def _pci_group(card: str, labels: Mapping[str, str]) -> set[str]:
    """The cards on the same board, with `card`: `gpu.intel.com/pci-groups: 0.1_2.3.4` are two groups."""
    groups = [
        {f"card{number}" for number in group.split(".")} for group in _long_label(labels, "pci-groups").split("_")
    ]
    return {card}.union(*(group for group in groups if card in group))


def _numa_nodes(labels: Mapping[str, str]) -> dict[str, str]:
    """Card → NUMA node: of `gpu.intel.com/numa-gpu-map: 0-0.1_1-2.3`, card2 and card3 are on NUMA node 1."""
    parts = (part.partition("-") for part in _long_label(labels, "numa-gpu-map").split("_"))
    return {f"card{number}": numa for numa, _, numbers in parts for number in numbers.split(".") if number}


def _long_label(labels: Mapping[str, str], name: str) -> str:
    """A value that is too long for a label goes on in `<name>2`, `<name>3` …, each of which begins with Z."""
    text, part = labels.get(f"{INTEL_PREFIX}{name}", ""), 2
    while (more := labels.get(f"{INTEL_PREFIX}{name}{part}", "")).startswith("Z"):
        text, part = text + more[1:], part + 1
    return text


def _usable_tiles(card: str, each: Mapping[str, int], steering: _Steering) -> dict[str, int]:
    """A label of a tile that the card does not have takes none away, as in GPU Aware Scheduling."""
    tiles = (f"{card}_gt{number}" for number in range(min(each.get(INTEL_TILES, 0), _MOST_TILES)))
    unusable = sum(tile in steering.unusable_tiles for tile in tiles)
    return {INTEL_TILES: each[INTEL_TILES] - unusable} if unusable and INTEL_TILES in each else {}


def _intel_names(labels: Mapping[str, str]) -> list[str]:
    """`gpu.intel.com/cards: card0.card1`, or, of later versions, `gpu.intel.com/gpu-numbers: 0.1`."""
    if cards := labels.get(f"{INTEL_PREFIX}cards"):
        return sorted(set(cards.split(".")))
    return [f"card{number}" for number in sorted(set(_long_label(labels, "gpu-numbers").split("."))) if number]


def _positive(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def prepare_cards(node: NodeDevices) -> None:
    """Computes what the node's pods leave of its cards, so that no request has to."""
    for resource in CARD_RESOURCES:
        if node.allocatable.get(resource):
            cards_left(node, resource)


def cards_left(node: NodeDevices, resource: str, demands: Sequence[DeviceDemand] = ()) -> Sequence[Card] | None:
    """The cards with what the node's pods and these demands leave of them; None as in `whole_cards`.

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
    """The cards after the request has what it was given, or, where nobody says, what fits; if nothing does, what has
    most left: it is on some card."""
    chosen = set(request.cards) or {card.name for card in fitting_cards(cards, request)}
    if not chosen:
        memory = max(request.amounts, key=lambda name: name.endswith("memory.max") or name == NVIDIA_MEMORY)
        fullest_last = sorted(cards, key=lambda card: -card.left.get(memory, 0))
        chosen = {card.name for card in fullest_last[: request.count]}
    return [card.without(request.amounts) if card.name in chosen else card for card in cards]


def fitting_cards(cards: Sequence[Card], request: CardRequest) -> Sequence[Card]:
    """The cards that the request would have: preferred ones, then those that it fills most; () when too few fit."""
    usable = usable_cards(cards, request)
    if len(usable) < request.count:
        return ()
    return sorted(usable, key=lambda card: (not card.preferred, _spare(card, request), card.name))[: request.count]


def usable_cards(cards: Sequence[Card], request: CardRequest) -> Sequence[Card]:
    """The cards that the request may have and fits on."""
    if not request.steered:
        return [card for card in cards if card.usable and card.has(request.amounts)]
    usable = [card for card in cards if request.may_have(card.name) and card.usable and card.has(request.amounts)]
    if not request.single_numa:
        return usable
    by_numa = [[card for card in usable if card.numa == numa] for numa in dict.fromkeys(card.numa for card in usable)]
    return next((group for group in by_numa if len(group) >= request.count), ())


def _spare(card: Card, request: CardRequest) -> int:
    return sum(card.left[resource] - amount for resource, amount in request.amounts.items())


def place(cards: Sequence[Card], requests: Sequence[CardRequest]) -> Sequence[Card] | None:
    """The cards after all requests of a pod; None when one of them fits on none."""
    for request in requests:
        chosen = {card.name for card in fitting_cards(cards, request)}
        if not chosen:
            return None
        cards = [card.without(request.amounts) if card.name in chosen else card for card in cards]
    return cards


def fits(cards: Sequence[Card], requests: Sequence[CardRequest]) -> bool:
    """Tells whether `place` finds cards for all requests; which the last one would have need not be known."""
    left = place(cards, requests[:-1])
    return left is not None and len(usable_cards(left, requests[-1])) >= requests[-1].count
