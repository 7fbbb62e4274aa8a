"""Tells whether what a pod asks of single cards fits on a node beside reservations of others, which may go anywhere.

Placing every reservation on each of 5,000 nodes takes a quarter of a second. Mostly it does not matter where they go,
and how many reservations certainly leave room is computed once for the pods of a template,
and kept with the node's devices.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.cluster.devices.cards import (
    NVIDIA_MEMORY,
    Card,
    CardRequest,
    card_requests,
    cards_left,
    fits,
    usable_cards,
)
from leadsman.cluster.devices.demand import NVIDIA_CARD, DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices

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
