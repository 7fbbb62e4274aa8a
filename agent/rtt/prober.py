"""The prober: probes every peer once an interval, by ICMP echo or a TCP handshake, and keeps the outcomes.

    set_peers ─▶ PeerStats, ProbeSchedule    run: due → probe → answered or lost → PeerStats ─▶ report, /metrics

One event loop; no call blocks it and no probe waits for another.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import struct
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from random import Random

from prometheus_client import Metric

from agent.rtt.icmp import (
    FAMILY_BY_VERSION,
    DualClock,
    EchoClient,
    EchoSocket,
    Endpoint,
    IcmpRefused,
    IpVersion,
    SendResult,
    SocketAddress,
    open_sockets,
    read_clocks,
)
from agent.rtt.peer import Answered, Lost, Peer, ProbeMode, ProbeResult, ProbeSchedule, ProbeSettings
from agent.rtt.peer_stats import PeerStats, Probe, ProbeCounts, ProbeTarget
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, PeerLatency, ProbeMethod

# A TCP handshake as a probe, for peers that answer no ICMP.
#
# The RTT is the kernel's own first sample (TCP_INFO), which a busy event loop does not change. A refused connection
# is an answer too: the RST comes from the host. A handshake that needed its SYN twice is a lost probe.

# struct tcp_info, linux/tcp.h: tcpi_rtt in microseconds, tcpi_total_retrans.
_TCP_INFO_BYTES = 104
_RTT_AT = 68
_RETRANSMITS_AT = 100
_U32 = struct.Struct("@I")

_RESET_ON_CLOSE = struct.pack("@ii", 1, 0)
"""SO_LINGER: leaves no TIME_WAIT behind, which at one probe a second would be 60 a peer."""

_ANSWERED_ERRNOS = {errno.ECONNREFUSED, errno.ECONNRESET}
_UNSENT_ERRNOS = {
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.EPERM,
    errno.EACCES,
    errno.EADDRNOTAVAIL,
}


async def handshake(endpoint: Endpoint, port: int, timeout_seconds: float) -> ProbeResult | None:
    """Shakes hands once; None when this host could not send (no descriptors, buffers or ports; a firewall rule)."""
    try:
        sock = socket.socket(FAMILY_BY_VERSION[endpoint.version], socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    except OSError:
        return None
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        host, _, *more = endpoint.address
        return await _connect(sock, (host, port, *more), timeout_seconds)


async def _connect(sock: socket.socket, to: SocketAddress, timeout_seconds: float) -> ProbeResult | None:
    started = time.monotonic()
    try:
        async with asyncio.timeout(timeout_seconds):
            await asyncio.get_running_loop().sock_connect(sock, to)
    except TimeoutError:
        return Lost()
    except OSError as error:
        if error.errno in _UNSENT_ERRNOS:
            return None
        elapsed = time.monotonic() - started
        return Answered(elapsed) if error.errno in _ANSWERED_ERRNOS else Lost()
    tcp_info = b""
    with contextlib.suppress(OSError):
        tcp_info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return parse_tcp_info(tcp_info, time.monotonic() - started)


def parse_tcp_info(tcp_info: bytes, elapsed_seconds: float) -> ProbeResult:
    """Returns the result of a TCP probe by struct tcp_info. elapsed_seconds: bounds the RTT, and is the RTT when the
    struct is empty."""
    if len(tcp_info) < _TCP_INFO_BYTES:
        return Answered(elapsed_seconds)
    if _U32.unpack_from(tcp_info, _RETRANSMITS_AT)[0]:
        return Lost()
    kernel = _U32.unpack_from(tcp_info, _RTT_AT)[0] / 1e6
    return Answered(kernel if 0 < kernel <= elapsed_seconds else elapsed_seconds)


_log = logging.getLogger(__name__)

_PROBES_PER_WAKEUP = 8
"""Probes sent together on average: waking an idle process costs about as much as two probes."""

_SHORTEST_SLEEP_SECONDS = 0.005
_LONGEST_SLEEP_SECONDS = 0.5
_LONGEST_ROUND_SECONDS = 1.0
_MAX_HANDSHAKES = 256
"""Handshakes open at once; more would come near the usual limit of 1,024 descriptors. Others count as unsent."""

EARLY_PROBES_PER_SECOND, EARLY_PROBES_BURST = 0.4, 16
"""Probes that come early because the last one to the peer was lost. The rate is a tenth of an agent's share of the
cluster's budget at 5,000 nodes, and less of it in a smaller cluster."""

ICMP_RETRY_SECONDS = 60.0


class Prober:
    """Probes peers and answers with their latencies.

    stats: the peers' outcomes. echoes: the probes by ICMP that are open.
    rounds: completed probe intervals, or seconds if those are shorter; it stands still when `run` hangs.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        clock: DualClock = read_clocks,
        rng: Random | None = None,
        opener: Callable[[], Mapping[IpVersion, EchoSocket]] = open_sockets,
        on_silence: Callable[[], None] = lambda: None,
        icmp_retry_seconds: float = ICMP_RETRY_SECONDS,
    ) -> None:
        """on_silence: called when a peer falls silent or answers again, and when a local fault begins or ends.
        icmp_retry_seconds: between two tries to open ICMP sockets that the kernel refused.
        """
        self._settings, self._clock, self._opener = settings, clock, opener
        self._schedule: ProbeSchedule = ProbeSchedule(settings.interval_seconds, rng or Random())
        self.echoes, self._icmp_retry_seconds = self._echoes_on({}), icmp_retry_seconds
        self._handshakes = 0
        self._problem = ProblemLog(_log, "agent reports no latencies", "agent reports latencies again")
        self._group: asyncio.TaskGroup | None = None
        self.stats = PeerStats(settings, on_silence)
        self._on_silence, self._was_at_fault = on_silence, False
        self._early_probes = TokenBucket(EARLY_PROBES_PER_SECOND, EARLY_PROBES_BURST, lambda: self._clock().seconds)
        self.rounds = 0
        self.icmp_refusal: str | None = None
        """Why the kernel allows no ICMP socket, so that all peers are probed by TCP; None otherwise."""

    def set_peers(self, peers: Iterable[Peer]) -> None:
        """Probes exactly these peers from now on. Outcomes of a peer that left or changed its address are dropped."""
        removed, added = self.stats.set_peers(peers)
        for name in removed:
            self._schedule.remove(name)
        for name in added:
            self._schedule.add(name, self._clock().seconds)

    def set_timing(self, interval_seconds: float, window_seconds: float) -> None:
        """Sets the interval between two probes to one peer and the span of the statistics."""
        self._schedule.interval_seconds = interval_seconds
        self.stats.set_timing(interval_seconds, window_seconds)

    def measured_peers(self) -> Collection[str]:
        """Peers with at least one answered or lost probe in their window."""
        self.echoes.receive()  # A probe that an extender waits for is reported with no turn's delay.
        return self.stats.latencies(self._clock().seconds)

    def silent_peers(self) -> Collection[str]:
        """Returns the peers that stopped answering."""
        return self.stats.silent_peers(self._clock().seconds)

    def probe_now(self, name: str) -> None:
        """Sends one probe besides the regular ones, if the name is a peer's and `run` is running."""
        target = self.stats.targets.get(name)
        if target and self._group:
            self._probe(target, self._group)

    async def run(self) -> None:
        """Probes until cancelled. IcmpRefused in mode icmp when the kernel allows no ICMP socket."""
        with contextlib.ExitStack() as stack:
            self._use(self._open(), stack)
            async with asyncio.TaskGroup() as self._group:
                if self.icmp_refusal is not None:
                    self._group.create_task(self._await_icmp(stack), name="wait for ICMP sockets")
                await self._pace(self._group)

    def _use(self, sockets: Mapping[IpVersion, EchoSocket], stack: contextlib.ExitStack) -> None:
        """Echoes on these sockets, which the stack closes.

        Replies wait for the next turn, stamped by the kernel: to wake for each costs more than to read it. Those to all
        other processes, which a raw socket gets too, could fill its buffer by then, so the event loop watches it.
        """
        loop = asyncio.get_running_loop()
        self.echoes = self._echoes_on(sockets)
        for sock in sockets.values():
            stack.callback(sock.close)
            if sock.raw:
                loop.add_reader(sock.fileno(), self.echoes.receive)
                stack.callback(loop.remove_reader, sock.fileno())

    async def _await_icmp(self, stack: contextlib.ExitStack) -> None:
        """Opens the sockets once the kernel allows them: an operator may set the sysctl while the agent runs."""
        while self.icmp_refusal is not None:
            await asyncio.sleep(self._icmp_retry_seconds)
            with contextlib.suppress(IcmpRefused):
                self._use(self._opener(), stack)
                self.icmp_refusal = None
        self.stats.allow_icmp()
        _log.warning("kernel now allows ICMP sockets; agent probes each peer by ICMP once that peer answers")

    def _open(self) -> Mapping[IpVersion, EchoSocket]:
        if self._settings.mode is ProbeMode.TCP:
            return {}
        try:
            return self._opener()
        except IcmpRefused as refused:
            if self._settings.mode is ProbeMode.ICMP:
                raise
            _log.warning("kernel refuses ICMP sockets; agent probes all peers by TCP handshakes: %s", refused)
            self.icmp_refusal = str(refused)
            self.stats.use_tcp_only()
            return {}

    def _echoes_on(self, sockets: Mapping[IpVersion, EchoSocket]) -> EchoClient[Probe]:
        return EchoClient(sockets, self._settings.timeout_seconds, self._clock, lambda *end: self._record_result(*end))

    def _record_result(self, probe: Probe, sent: float, result: ProbeResult) -> None:
        """Records a probe's result. A peer that lost one is probed again at once, until it answers or is silent."""
        self.stats.record_result(probe, sent, result)
        name, losses = probe.target.peer.name, probe.target.consecutive_losses
        if self.stats.targets.get(name) is not probe.target or not isinstance(result, Lost):
            return
        if 0 < losses < LOSSES_OF_A_SILENT_PEER and self._early_probes.try_take():
            self._schedule.hasten(name, self._clock().seconds)

    async def _pace(self, group: asyncio.TaskGroup) -> None:
        self.stats.start_round(self._clock().seconds)
        round_seconds = min(self._settings.interval_seconds, _LONGEST_ROUND_SECONDS)
        round_ends = self._clock().seconds + round_seconds
        while True:
            self.echoes.expire()  # A loss that it finds may bring a probe forward to this turn.
            now = self._clock().seconds
            for name in self._schedule.due(now):
                self._probe(self.stats.targets[name], group)
            if now >= round_ends:
                round_ends = now + round_seconds
                self._end_round(now)
            await asyncio.sleep(self._pause_seconds())

    def _pause_seconds(self) -> float:
        """Returns the seconds until a few probes are due. It also bounds how late a loss is noticed."""
        interval = self._schedule.interval_seconds
        a_few = _PROBES_PER_WAKEUP * interval / max(1, len(self._schedule))
        return min(max(a_few, _SHORTEST_SLEEP_SECONDS), _LONGEST_SLEEP_SECONDS, interval)

    def _end_round(self, now: float) -> None:
        self.rounds += 1
        self.stats.start_round(now)
        fault = self.stats.local_fault(now)
        if fault:
            self._problem.report(fault, kind="silence")
        else:
            self._problem.clear()
        if bool(fault) is not self._was_at_fault:
            self._was_at_fault = bool(fault)
            self._on_silence()

    def _probe(self, target: ProbeTarget, group: asyncio.TaskGroup) -> None:
        if target.endpoint is None:
            return
        for method in target.method_selector.next_methods():
            probe = Probe(target, method)
            if method is ProbeMethod.ICMP:
                self._echo(probe, target.endpoint)
            else:
                self._start_handshake(probe, target.endpoint, group)

    def _echo(self, probe: Probe, endpoint: Endpoint) -> None:
        sent = self.echoes.send(probe, *endpoint)
        if sent is SendResult.UNSENT:
            self.stats.record_unsent(probe)
            return
        self.stats.record_sent(probe)
        if sent is SendResult.UNREACHABLE:
            self._record_result(probe, self._clock().seconds, Lost())

    def _start_handshake(self, probe: Probe, endpoint: Endpoint, group: asyncio.TaskGroup) -> None:
        if self._handshakes >= _MAX_HANDSHAKES:
            self.stats.record_unsent(probe)
        else:
            self._handshakes += 1
            group.create_task(self._shake_hands(probe, endpoint), name=f"handshake with {probe.target.peer.name}")

    async def _shake_hands(self, probe: Probe, endpoint: Endpoint) -> None:
        sent = self._clock().seconds
        try:
            result = await handshake(endpoint, self._settings.tcp_port, self._settings.timeout_seconds)
        finally:
            self._handshakes -= 1
        if result is None:
            self.stats.record_unsent(probe)
        else:
            self.stats.record_sent(probe)
            self._record_result(probe, sent, result)


# Metrics of the prober, made at each scrape from memory, so that a departed peer's series are gone.
#
# No address is a label. Series by peer exist only for probed peers whose names last (agent.peering.peer_selection):
# with those that rotate, the series of 1,000 nodes would grow by 1.5 million in two hours. The histogram and the counts
# without the label `peer` are of all. The series of windows are absent during a local fault.

_Window = Callable[[PeerLatency], float | None]
_WINDOWS: dict[str, tuple[str, _Window]] = {
    "leadsman_peer_rtt_p50_seconds": (
        "Median round-trip time to the peer in the window.",
        lambda w: _seconds(w.p50_ms),
    ),
    "leadsman_peer_rtt_p95_seconds": (
        "95th percentile of round-trip times to the peer in the window.",
        lambda w: _seconds(w.p95_ms),
    ),
    "leadsman_peer_rtt_min_seconds": (
        "Shortest round-trip time to the peer in the window.",
        lambda w: _seconds(w.min_ms),
    ),
    "leadsman_peer_rtt_jitter_seconds": (
        "Mean absolute difference of consecutive round-trip times to the peer in the window.",
        lambda w: _seconds(w.jitter_ms),
    ),
    "leadsman_peer_loss_ratio": (
        "Share of the probes sent to the peer in the window that were lost.",
        lambda w: w.loss_ratio,
    ),
    "leadsman_peer_last_reply_age_seconds": ("Time since the peer's last reply.", lambda w: w.last_reply_age_seconds),
}

_COUNTS: dict[str, tuple[str, Callable[[ProbeCounts], int]]] = {
    "probes_sent": ("Probes sent to {}.", lambda counts: counts.sent),
    "probes_lost": ("Probes to {} without a reply within the timeout.", lambda counts: counts.lost),
    "probes_unsent": ("Probes to {} that this host could not send.", lambda counts: counts.unsent),
    "probes_unusable": (
        "Replies of {} that were discarded because the wall clock stepped.",
        lambda counts: counts.unusable,
    ),
}
"""Behind `leadsman_peer_` with the label `peer`, behind `leadsman_` for all peers."""


def rtt_metrics(prober: Prober, now: float, lasting: Container[str]) -> Iterator[Metric]:
    """Returns all families of the prober. now: monotonic seconds. lasting: the peers that have series of their own."""
    targets = {name: target for name, target in prober.stats.targets.items() if name in lasting}
    yield from window_families(
        {name: window for name, window in prober.stats.latencies(now).items() if name in lasting}
    )
    yield from count_families(targets, prober.stats.counts)
    blocked = {name: each.method_selector.icmp_blocked for name, each in targets.items()}
    yield gauge("leadsman_peer_icmp_blocked", "1 while the peer answers TCP and not ICMP.", blocked, "peer")
    yield gauge(
        "leadsman_peers",
        "Peers under probe: those that last have series of their own, those that rotate have none.",
        {"lasting": len(targets), "rotating": len(prober.stats.targets) - len(targets)},
        "kind",
    )
    yield from prober.stats.histogram.collect()
    yield gauge(
        "leadsman_prober_fault",
        "1 while no peer answers, so that latencies are unknown.",
        prober.stats.local_fault(now) is not None,
    )


def window_families(latencies: dict[str, PeerLatency]) -> Iterator[Metric]:
    for name, (text, value) in _WINDOWS.items():
        values = {peer: value(window) for peer, window in latencies.items()}
        yield gauge(name, text, {peer: number for peer, number in values.items() if number is not None}, "peer")


def count_families(targets: dict[str, ProbeTarget], of_all: ProbeCounts) -> Iterator[Metric]:
    for name, (text, value) in _COUNTS.items():
        by_peer = {peer: value(target.counts) for peer, target in targets.items()}
        yield counter(f"leadsman_peer_{name}", text.format("the peer"), by_peer, "peer")
        yield counter(f"leadsman_{name}", text.format("all peers"), value(of_all))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
