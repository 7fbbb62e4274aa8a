"""Decides where a packet goes, when, and whether it is lost. Pure: time and randomness are arguments."""

import heapq
from random import Random
from typing import NamedTuple

_IPV4_HEADER = 20
_IPV6_HEADER = 40


class LinkProperties(NamedTuple):
    """Delay and loss between two hosts.

    rtt_ms: half of it is added each way.
    loss_ratio: share of round trips that are lost, 0..1.
    """

    rtt_ms: float = 0.0
    loss_ratio: float = 0.0

    @property
    def one_way_seconds(self) -> float:
        return self.rtt_ms / 2e3

    @property
    def drop_ratio(self) -> float:
        """Share of packets dropped in each direction, so that a round trip survives both with 1 - loss_ratio."""
        return float(1 - (1 - self.loss_ratio) ** 0.5)

    def validated(self) -> "LinkProperties":
        """Itself. ValueError when a value is out of its range."""
        if not 0 <= self.rtt_ms < float("inf"):
            raise ValueError(f"rtt_ms {self.rtt_ms}: want a finite number of milliseconds, 0 or more")
        if not 0 <= self.loss_ratio <= 1:
            raise ValueError(f"loss_ratio {self.loss_ratio}: want 0 to 1")
        return self


class Departure(NamedTuple):
    """A packet that leaves to a host at a time."""

    due: float
    serial: int
    host: int
    packet: bytes


def destination(packet: bytes) -> bytes | None:
    """The destination address, 4 or 16 bytes; None when that is no IP packet."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= _IPV4_HEADER:
        return packet[16:20]
    return packet[24:40] if version == 6 and len(packet) >= _IPV6_HEADER else None


class Links:
    """The packets under way between numbered hosts.

    addresses: packed IPv4 or IPv6 address, or the first three bytes of an IPv4 /24 → host.
    """

    def __init__(self, addresses: dict[bytes, int], rng: Random) -> None:
        self._addresses, self._rng = addresses, rng
        self._paths: dict[tuple[int, int], LinkProperties] = {}
        self._waiting: list[Departure] = []
        self._serial = 0

    def set_path(self, one: int, other: int, path: LinkProperties) -> None:
        """Sets delay and loss in both directions, for packets that enter from now on."""
        self._paths[one, other] = self._paths[other, one] = path

    def enter(self, host: int, packet: bytes, now: float) -> None:
        """Takes a packet that `host` sent. One to an unknown address is lost, as in a network without such a host."""
        to = self._owner(destination(packet))
        if to is None:
            return
        path = self._paths.get((host, to), LinkProperties())
        if not (path.loss_ratio and self._rng.random() < path.drop_ratio):
            self._serial += 1
            heapq.heappush(self._waiting, Departure(now + path.one_way_seconds, self._serial, to, packet))

    def leave(self, now: float) -> list[Departure]:
        """The packets that are due, in order."""
        departures = []
        while self._waiting and self._waiting[0].due <= now:
            departures.append(heapq.heappop(self._waiting))
        return departures

    def _owner(self, address: bytes | None) -> int | None:
        if address is None:
            return None
        to = self._addresses.get(address)
        return self._addresses.get(address[:3]) if to is None else to

    @property
    def next_due(self) -> float | None:
        return self._waiting[0].due if self._waiting else None
