"""Defines whom to probe, how and when: a peer, what may become of a probe, the settings, and the schedule. Pure."""

import math
from enum import StrEnum
from random import Random
from typing import NamedTuple

from msgspec import Struct

from leadsman.state.records import LONGEST_PROBE_SECONDS


class Peer(Struct, frozen=True):
    """A node to probe. name: its node name. address: IPv4 or IPv6."""

    name: str
    address: str


class Answered(NamedTuple):
    rtt_seconds: float


class Lost(NamedTuple):
    """The probe had no answer within the timeout."""


class Unusable(NamedTuple):
    """Answered in time, but the wall clock was set meanwhile: neither a latency nor a loss."""


ProbeResult = Answered | Lost | Unusable


class ProbeMode(StrEnum):
    """Says how peers are probed. auto: by ICMP, and by TCP where a peer answers only that; icmp, tcp: by that alone."""

    AUTO = "auto"
    ICMP = "icmp"
    TCP = "tcp"


class ProbeSettings(Struct, frozen=True):
    """Says how a prober probes. Raises ValueError for a value out of bounds.

    mode: auto probes by ICMP, and by TCP where a peer answers only that. With icmp, refused sockets are an error.
    interval_seconds: time between two probes to one peer, ± 10 %. Shorter notices changes sooner and costs more.
    timeout_seconds: a later reply is a loss, so a silence is noticed so much later. It may exceed the interval; several
        probes are then open.
    window_seconds: span of p50, p95, loss and jitter. At least an interval.
    tcp_port: where a peer's host answers or refuses a handshake; the agent's own port by default.
    """

    mode: ProbeMode = ProbeMode.AUTO
    interval_seconds: float = 1.0
    timeout_seconds: float = 1.0
    window_seconds: float = 30.0
    tcp_port: int = 9102

    def __post_init__(self) -> None:
        _check("probe interval", self.interval_seconds, 0.01, 3600)
        _check("probe timeout", self.timeout_seconds, 0.001, LONGEST_PROBE_SECONDS)
        _check("window", self.window_seconds, self.interval_seconds, 86_400)
        if not 1 <= self.tcp_port <= 65_535:
            raise ValueError(f"TCP probe port {self.tcp_port}: must be 1 to 65535")


def _check(name: str, seconds: float, least: float, most: float) -> None:
    if not (math.isfinite(seconds) and least <= seconds <= most):
        raise ValueError(f"{name} {seconds} s: must be {least:g} to {most:g}")


_JITTER = 0.1
MAX_FIRST_DELAY_SECONDS = 1.0
"""A new key comes first within this time, however long the interval is."""


class ProbeSchedule:
    """Schedules each peer once an interval, ± 10 %, at a phase of its own.

    Random phases spread the probes over the interval and keep agents that started together from probing together.
    """

    def __init__(self, interval_seconds: float, rng: Random) -> None:
        self.interval_seconds = interval_seconds
        """May be changed; a change holds from each key's next turn on."""
        self._rng = rng
        self._turns: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, key: str, now: float) -> None:
        """Adds a key, first due at a random time within an interval, or MAX_FIRST_DELAY_SECONDS if that is shorter."""
        self._turns[key] = now + self._rng.random() * min(self.interval_seconds, MAX_FIRST_DELAY_SECONDS)

    def hasten(self, key: str, when: float) -> None:
        """Moves the key's next turn forward to `when`; the turns after it follow from there."""
        self._turns[key] = when

    def remove(self, key: str) -> None:
        del self._turns[key]

    def due(self, now: float) -> list[str]:
        """Returns the keys that are due, each once. Turns that were missed are not caught up."""
        due = sorted((when, key) for key, when in self._turns.items() if when <= now)
        for when, key in due:
            step = self.interval_seconds * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
            self._turns[key] = when + step if when + step > now else now + step
        return [key for _, key in due]
