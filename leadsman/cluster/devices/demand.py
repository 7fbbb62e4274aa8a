"""Reads what a pod asks of devices: extended resources by container, memory of one device, bandwidth of a link."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple, Protocol, Self

from msgspec import Struct

from leadsman.kube import quantity
from leadsman.kube.names import BANDWIDTH_ANNOTATION, DEVICE_MEMORY_ANNOTATION, EGRESS_BANDWIDTH_KEY, GAS_CARDS_KEY

INTEL_CARDS = ("gpu.intel.com/i915", "gpu.intel.com/xe")
NVIDIA_CARD = "nvidia.com/gpu"
CARD_RESOURCES = (*INTEL_CARDS, NVIDIA_CARD)
"""Resources whose cards are described by labels of the node; no other resource has such labels."""

_BITS = {"bit": 1, "kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
_BANDWIDTH = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([kMGT]?bit)", re.ASCII)
LARGEST_BANDWIDTH_BITS = 10**15
"""Kubernetes' own limit for kubernetes.io/egress-bandwidth (pkg/util/bandwidth)."""


class BadDemand(ValueError):
    """An annotation cannot be read, or asks for what nobody counts; the text says which, and what is allowed."""


class DeviceDemand(Struct, frozen=True, weakref=True, omit_defaults=True):
    """Says what a pod asks of devices. It is equal for pods of one template, but for `cards`.

    containers: of each container, extended resource → amount; () when no container asks for any.
    memory_bytes: asked of each single device (leadsman.dev/device-memory); None: not asked by annotation.
    bandwidth_bits: per second, asked of a link; None: not asked.
    cards: of each container, the cards that it was given (gas-container-cards); (): nobody says.
    claims: names of its ResourceClaims, in its namespace; "" for one that is to be made.
    templates: names of the ResourceClaimTemplates from which claims are still to be made.
    """

    containers: tuple[Mapping[str, int], ...] = ()
    memory_bytes: int | None = None
    bandwidth_bits: int | None = None
    cards: tuple[tuple[str, ...], ...] = ()
    claims: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    def amount(self, resource: str) -> int:
        """Sums up what all containers ask of one extended resource."""
        total = 0
        for container in self.containers:  # half as long as sum() of a generator, on 20,000 pods
            total += container.get(resource, 0)
        return total

    def resources(self) -> frozenset[str]:
        """Returns the extended resources that are asked for."""
        return frozenset(resource for container in self.containers for resource in container)


NO_DEMAND = DeviceDemand()


class ClaimReference(Protocol):
    """A claim in a pod's spec or status. resource_claim_name: None: not made yet."""

    @property
    def name(self) -> str: ...
    @property
    def resource_claim_name(self) -> str | None: ...
    @property
    def resource_claim_template_name(self) -> str | None: ...


class PodClaims(NamedTuple):
    """The ResourceClaims of a pod, as DeviceDemand has them."""

    names: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    @classmethod
    def of(cls, in_spec: Iterable[ClaimReference], in_status: Iterable[ClaimReference]) -> Self:
        """Matches a pod's claims with its status, which names those that were made from templates."""
        made = {each.name: each.resource_claim_name for each in in_status}
        named = [(each, each.resource_claim_name or made.get(each.name) or "") for each in in_spec]
        templates = (each.resource_claim_template_name for each, name in named if not name)
        return cls(tuple(name for _, name in named), tuple(filter(None, templates)))


NO_CLAIMS = PodClaims()


def device_demand(
    containers: tuple[Mapping[str, int], ...], annotations: Mapping[str, str], claims: PodClaims = NO_CLAIMS
) -> DeviceDemand:
    """Reads the demand of a pod with these containers, annotations and claims. Raises BadDemand."""
    asks = any(containers)
    return DeviceDemand(
        containers if asks else (),
        _memory_bytes(annotations.get(DEVICE_MEMORY_ANNOTATION), containers),
        _bandwidth_bits(annotations),
        _container_cards(annotations.get(GAS_CARDS_KEY, "")) if asks else (),
        claims.names,
        claims.templates,
    )


def readable_demand(
    containers: tuple[Mapping[str, int], ...], annotations: Mapping[str, str], claims: PodClaims = NO_CLAIMS
) -> tuple[DeviceDemand, str]:
    """Returns the demand, and ""; or what remains without annotations, and why these cannot be read."""
    try:
        return device_demand(containers, annotations, claims), ""
    except BadDemand as error:
        return device_demand(containers, {}, claims), str(error)


def _bandwidth_bits(annotations: Mapping[str, str]) -> int | None:
    """Our own annotation counts before Kubernetes', which is a quantity in bit/s."""
    if BANDWIDTH_ANNOTATION in annotations:
        text = annotations[BANDWIDTH_ANNOTATION]
        match = _BANDWIDTH.fullmatch(text.strip())
        bits = int(Decimal(match[1]) * _BITS[match[2]]) if match else 0
        allowed = "a number and a unit of bit/s: bit, kbit, Mbit, Gbit or Tbit, as in 2Gbit"
        return _within_limits(BANDWIDTH_ANNOTATION, text, bits, allowed)
    if EGRESS_BANDWIDTH_KEY in annotations:
        text = annotations[EGRESS_BANDWIDTH_KEY]
        allowed = "a quantity in bit/s, as in 10M"
        return _within_limits(EGRESS_BANDWIDTH_KEY, text, _quantity(text), allowed)
    return None


def _memory_bytes(text: str | None, containers: tuple[Mapping[str, int], ...]) -> int | None:
    if text is None:
        return None
    allowed = "a quantity of bytes, as in 5Gi"
    amount = _within_limits(DEVICE_MEMORY_ANNOTATION, text, _quantity(text), allowed, quantity.LARGEST_AMOUNT - 1)
    if not any(container.get(card) for container in containers for card in CARD_RESOURCES):
        asked = ", ".join(sorted({name for container in containers for name in container})) or "no card"
        *others, last = CARD_RESOURCES
        raise BadDemand(
            f"annotation {DEVICE_MEMORY_ANNOTATION} asks for memory of a card, and the pod requests {asked[:200]};"
            f" what one card has is known of {', '.join(others)} or {last} only"
        )
    return amount


def _within_limits(annotation: str, text: str, amount: int, allowed: str, largest: int = LARGEST_BANDWIDTH_BITS) -> int:
    if not 0 < amount <= largest:
        raise BadDemand(
            f"annotation {annotation} is {text[:64]!r}; it must be {allowed}, above 0 and at most {largest:,}"
        )
    return amount


def _quantity(text: str) -> int:
    """Reads a quantity, rounded up; 0 for what is none."""
    try:
        return quantity.whole_units(text.strip())
    except quantity.BadQuantity:
        return 0


def _container_cards(text: str) -> tuple[tuple[str, ...], ...]:
    """Reads `card0,card1|card2`: cards of the first container, then of the second."""
    parts = text.split("|") if text else ()
    return tuple(tuple(filter(None, map(str.strip, part.split(",")))) for part in parts)


def extended_requests(requests: Iterable[Mapping[str, str | int | float]]) -> tuple[Mapping[str, int], ...]:
    """Returns the extended resources of each container; () when no container requests any. quantity.BadQuantity."""
    extended = tuple(
        {
            name: units
            for name, amount in each.items()
            if is_extended(name) and (units := quantity.whole_units(str(amount)))
        }
        for each in requests
    )
    return extended if any(extended) else ()


def is_extended(name: str) -> bool:
    """Tells whether a resource is one of some vendor: neither native nor of Kubernetes itself."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")
