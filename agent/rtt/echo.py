"""Echo requests out, answers matched.

An answer counts when its cookie is this process's, its counter is of a probe still under way, and it comes from
the address probed. So a stranger's reply, a forged one, a duplicate and a late one are no samples.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from agent.rtt.clock import DualClock, DualTimestamp, round_trip_ns
from agent.rtt.packet import COOKIE_BYTES, EchoPayload, IpVersion, decode_reply, encode_request
from agent.rtt.probe_result import Answered, Lost, ProbeResult, Unusable
from agent.rtt.sockets import Datagram, EchoSocket, SendResult, SocketAddress

T = TypeVar("T")


ResultCallback = Callable[[T, float, ProbeResult], None]
"""Told of every probe that was under way, once: target, monotonic seconds of sending, result."""


class _InFlight(NamedTuple, Generic[T]):
    target: T
    address: str
    sent: DualTimestamp


class EchoClient(Generic[T]):
    """strays: received messages that answer nothing, by reason."""

    def __init__(
        self,
        sockets: Mapping[IpVersion, EchoSocket],
        timeout_seconds: float,
        clock: DualClock,
        done: ResultCallback[T],
        cookie: bytes | None = None,
    ) -> None:
        self._sockets, self._clock, self._done = sockets, clock, done
        self._timeout_ns = round(timeout_seconds * 1e9)
        self._cookie = cookie or os.urandom(COOKIE_BYTES)
        self._identifier = int.from_bytes(self._cookie[:2], "big")
        self._counter = 0
        self._under_way: dict[int, _InFlight[T]] = {}
        self.unmatched_replies: Counter[str] = Counter()

    def send(self, target: T, version: IpVersion, to: SocketAddress) -> SendResult:
        """One probe. Only one under way will be heard of through `done`."""
        if version not in self._sockets:
            return SendResult.UNSENT
        self._counter += 1
        message = encode_request(version, EchoPayload(self._cookie, self._counter), self._identifier)
        stamp = self._clock()
        sent = self._sockets[version].send(message, to)
        if sent is SendResult.IN_FLIGHT:
            self._under_way[self._counter] = _InFlight(target, to[0], stamp)
        return sent

    def receive(self, version: IpVersion) -> None:
        """Takes all that has arrived on this family's socket."""
        for datagram in self._sockets[version].drain():
            self.handle_datagram(version, datagram)

    def handle_datagram(self, version: IpVersion, datagram: Datagram) -> None:
        """One message. The clock is read here, after it arrived."""
        probe, stray = self._match(decode_reply(version, datagram.message), datagram.source)
        if probe is None:
            self.unmatched_replies[stray] += 1
            return
        rtt = round_trip_ns(probe.sent, datagram.wall_ns, self._clock())
        self._done(probe.target, probe.sent.seconds, self._judge(rtt))

    def expire(self) -> None:
        """Gives up what is over its time, after taking what waited in the sockets: it may have come in time."""
        deadline = self._clock().monotonic_ns - self._timeout_ns
        if not self._overdue(deadline):
            return
        for version in self._sockets:
            self.receive(version)
        for counter, probe in self._overdue(deadline):
            del self._under_way[counter]
            self._done(probe.target, probe.sent.seconds, Lost())

    def _match(self, echo: EchoPayload | None, source: str) -> tuple[_InFlight[T] | None, str]:
        if echo is None or echo.cookie != self._cookie:
            return None, "stranger"
        probe = self._under_way.get(echo.counter)
        if probe is None:
            return None, "duplicate_or_late"
        if probe.address != source:
            return None, "wrong_source"
        return self._under_way.pop(echo.counter), ""

    def _judge(self, rtt_ns: int | None) -> ProbeResult:
        if rtt_ns is None:
            return Unusable()
        return Answered(rtt_ns / 1e9) if rtt_ns <= self._timeout_ns else Lost()

    def _overdue(self, deadline_ns: int) -> "list[tuple[int, _InFlight[T]]]":
        """Probes sent before the deadline: the first ones, since a dict keeps the order of sending."""
        overdue = []
        for counter, probe in self._under_way.items():
            if probe.sent.monotonic_ns > deadline_ns:
                break
            overdue.append((counter, probe))
        return overdue
