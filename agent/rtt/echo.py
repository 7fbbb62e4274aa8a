"""Sends echo requests and matches the replies.

A reply counts when its cookie is this process's, its counter is of an open probe, and it comes from the address probed.
So another process's reply, a forged one, a duplicate and a late one are no samples.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from agent.rtt.clock import DualClock, DualTimestamp, round_trip_ns
from agent.rtt.packet import COOKIE_BYTES, EchoPayload, IpVersion, decode_reply, encode_request
from agent.rtt.peer import Answered, Lost, ProbeResult, Unusable
from agent.rtt.sockets import Datagram, EchoSocket, SendResult, SocketAddress

T = TypeVar("T")


ResultCallback = Callable[[T, float, ProbeResult], None]
"""Called once for every probe that was sent: target, monotonic seconds of sending, result."""


class _InFlight(NamedTuple, Generic[T]):
    target: T
    address: str
    sent: DualTimestamp


class EchoClient(Generic[T]):
    """Probes by ICMP echo.

    unmatched_replies: received messages that match no open probe, by reason.
    """

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
        self._in_flight: dict[int, _InFlight[T]] = {}
        self.unmatched_replies: Counter[str] = Counter()

    def send(self, target: T, version: IpVersion, to: SocketAddress) -> SendResult:
        """Sends one probe. `done` is called later if the result is IN_FLIGHT, and never otherwise."""
        if version not in self._sockets:
            return SendResult.UNSENT
        self._counter += 1
        message = encode_request(version, EchoPayload(self._cookie, self._counter), self._identifier)
        stamp = self._clock()
        sent = self._sockets[version].send(message, to)
        if sent is SendResult.IN_FLIGHT:
            self._in_flight[self._counter] = _InFlight(target, to[0], stamp)
        return sent

    def receive(self) -> None:
        """Handles all messages that arrived."""
        for version, sock in self._sockets.items():
            for datagram in sock.drain():
                self.handle_datagram(version, datagram)

    def handle_datagram(self, version: IpVersion, datagram: Datagram) -> None:
        """Handles one message. The clock is read here, after it arrived."""
        probe, reason = self._match(decode_reply(version, datagram.message), datagram.source)
        if probe is None:
            self.unmatched_replies[reason] += 1
            return
        rtt = round_trip_ns(probe.sent, datagram.wall_ns, self._clock())
        self._done(probe.target, probe.sent.seconds, self._result(rtt))

    def expire(self) -> None:
        """Ends overdue probes as lost, after handling what waits in the sockets: it may have come in time."""
        deadline = self._clock().monotonic_ns - self._timeout_ns
        self.receive()
        for counter, probe in self._overdue(deadline):
            del self._in_flight[counter]
            self._done(probe.target, probe.sent.seconds, Lost())

    def _match(self, echo: EchoPayload | None, source: str) -> tuple[_InFlight[T] | None, str]:
        if echo is None or echo.cookie != self._cookie:
            return None, "stranger"
        probe = self._in_flight.get(echo.counter)
        if probe is None:
            return None, "duplicate_or_late"
        if probe.address != source:
            return None, "wrong_source"
        return self._in_flight.pop(echo.counter), ""

    def _result(self, rtt_ns: int | None) -> ProbeResult:
        if rtt_ns is None:
            return Unusable()
        return Answered(rtt_ns / 1e9) if rtt_ns <= self._timeout_ns else Lost()

    def _overdue(self, deadline_ns: int) -> "list[tuple[int, _InFlight[T]]]":
        """Probes sent before the deadline: the first ones, since a dict keeps the order of sending."""
        overdue = []
        for counter, probe in self._in_flight.items():
            if probe.sent.monotonic_ns > deadline_ns:
                break
            overdue.append((counter, probe))
        return overdue
