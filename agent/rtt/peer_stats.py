"""Keeps the outcomes of all probes, peer by peer: a window of the last ones, counts that only grow, the method that the
peer answers, whether it is silent, and whether a silence of all peers is a fault of this node. The report and /metrics
read it.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from prometheus_client import Histogram

from agent.rtt.icmp import parse_literal
from agent.rtt.peer import Answered, Peer, ProbeMode, ProbeResult, ProbeSettings, Unusable
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, PeerLatency, PeerSilence, ProbeMethod, Reachability

ProbeOutcome = tuple[float, float | None]
"""When a probe that ended was sent, in monotonic seconds, and its round trip in ms; None when it was lost."""

_sent = itemgetter(0)


class ProbeWindow:
    """Outcomes in order of sending. A probe enters when it is answered or lost, so one under way counts as neither."""

    def __init__(self, span_seconds: float) -> None:
        self.span_seconds = span_seconds
        self._outcomes: list[ProbeOutcome] = []
        self.last_reply_seconds: float | None = None
        """Monotonic seconds; it outlives the span."""

    def add(self, sent: float, rtt_ms: float | None) -> None:
        """Adds one outcome. Outcomes may come in another order than their probes were sent."""
        insort(self._outcomes, (sent, rtt_ms), key=_sent)
        self._drop_before(self._outcomes[-1][0] - self.span_seconds)
        if rtt_ms is not None:
            self.last_reply_seconds = max(self.last_reply_seconds or 0.0, sent + rtt_ms / 1e3)

    def clear(self) -> None:
        self._outcomes.clear()

    def forget_losses(self, after: float, before: float) -> None:
        """Removes losses of probes sent strictly between the two times: they said nothing about the peer."""
        self._outcomes = [(sent, rtt) for sent, rtt in self._outcomes if rtt is not None or not after < sent < before]

    def latency(self, now: float, method: ProbeMethod, losses_until: float = math.inf) -> PeerLatency:
        """Returns the statistics of the span up to `now`. Losses of probes sent after `losses_until` are not counted
        yet."""
        self._drop_before(now - self.span_seconds)
        rtts = [rtt for _, rtt in self._outcomes if rtt is not None]
        lost = sum(rtt is None and sent <= losses_until for sent, rtt in self._outcomes)
        age = None if self.last_reply_seconds is None else max(0.0, now - self.last_reply_seconds)
        return _summary(rtts, lost, age, method)

    def _drop_before(self, start: float) -> None:
        del self._outcomes[: bisect_left(self._outcomes, start, key=_sent)]


def _summary(rtts: Sequence[float], lost: int, age: float | None, method: ProbeMethod) -> PeerLatency:
    """Summarises a window, rounded to microseconds, which is finer than any value's error; the age to milliseconds."""
    ordered = [round(rtt, 3) for rtt in sorted(rtts)]
    return PeerLatency(
        sent=len(rtts) + lost,
        received=len(rtts),
        p50_ms=nearest_rank(ordered, 0.50),
        p95_ms=nearest_rank(ordered, 0.95),
        min_ms=ordered[0] if ordered else None,
        jitter_ms=None if len(rtts) < 2 else round(jitter(rtts), 3),
        last_reply_age_seconds=None if age is None else round(age, 3),
        method=method,
    )


def nearest_rank(ordered: Sequence[float], share: float) -> float | None:
    """Returns the smallest value that at least `share` (0..1] of the values do not exceed: always one that was
    measured."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def jitter(rtts: Sequence[float]) -> float:
    """Returns the mean absolute difference of consecutive values, of which there are two at least."""
    return sum(abs(b - a) for a, b in pairwise(rtts)) / (len(rtts) - 1)


# Counts that only grow, for metrics.

BUCKET_BOUNDS_SECONDS = tuple(50e-6 * 2**power for power in range(20))
"""Upper bounds of the buckets, doubling from 50 us to 26.2 s, as smokeping_prober's do."""


class ProbeCounts:
    """Counts probes, to one peer or to all. Every probe sent ends as answered, lost or unusable, or is still open.

    unusable: answered, but the wall clock was set meanwhile.
    unsent: could not leave this host, so it is no probe at all.
    """

    __slots__ = ("lost", "sent", "unsent", "unusable")

    def __init__(self) -> None:
        self.sent = self.lost = self.unusable = self.unsent = 0


# Distinguishes a fault of this node, which hears nobody, from a peer that is gone.
#
# When every peer is silent, the common cause is on this side: a cable, a firewall rule, a full conntrack table.
# So a loss counts only once some peer has answered a probe sent no earlier, and the losses of a long common
# silence are taken back. One peer alone proves nothing either way: with fewer than two, every loss counts.

_MIN_PEERS = 2


class LocalFaultDetector:
    def __init__(self, silence_limit_seconds: float) -> None:
        """silence_limit_seconds: a longer silence of all peers is a local fault.

        Much shorter, and two lossy peers would look like one; much longer, and false losses are reported for that long.
        """
        self.silence_limit_seconds = silence_limit_seconds
        self._since: float | None = None
        self._last_fault: tuple[float, float] | None = None
        self._comparable = False

    def set_peer_count(self, peers: int, now: float) -> None:
        """Takes the number of probed peers. Call it every round."""
        self._comparable = peers >= _MIN_PEERS
        if self._since is None or not self._comparable:
            self._since = now

    def record_reply(self, sent: float) -> tuple[float, float] | None:
        """Takes a reply to a probe sent at monotonic seconds.

        Returns the silence that it ends, if that was a local fault: when the answered probes around it were sent."""
        before = self._since
        self._since = sent if before is None else max(before, sent)
        too_long = before is not None and self._comparable and sent - before > self.silence_limit_seconds
        if not too_long or before is None:
            return None
        self._last_fault = (before, sent)
        return self._last_fault

    def was_fault(self, sent: float) -> bool:
        """Tells whether `sent` falls into the last local fault, whose losses say nothing of a peer."""
        return self._last_fault is not None and self._last_fault[0] < sent < self._last_fault[1]

    @property
    def losses_valid_until(self) -> float:
        """Returns monotonic seconds. Losses of probes sent later are not evidence yet."""
        return self._since if self._comparable and self._since is not None else math.inf

    def fault(self, now: float) -> str | None:
        """Says why no latency is known; None when some are."""
        if not self._comparable or self._since is None or now - self._since <= self.silence_limit_seconds:
            return None
        return f"no peer has answered for {now - self._since:.0f} s: the fault is on this node or on all paths from it"


# Selects ICMP or TCP for each peer by what it answers.
#
# method   next probes                                           changes when
# ICMP     ICMP; TCP too once it has been silent for long        TCP answers while ICMP is silent → TCP
# TCP      TCP; ICMP too now and then                            ICMP answers                     → ICMP

_SILENT_IF_NEVER_ANSWERED = 5
"""Unanswered ICMP probes before TCP is tried, when none was ever answered: ICMP is most likely blocked."""

_SILENT_IF_EVER_ANSWERED = 30
"""The same when some were answered: at 20 % loss, five in a row are lost every hour, thirty never."""

_TRY_TCP_EVERY = 5
_TRY_ICMP_EVERY = 30
"""Turns between two tries. Each try costs a probe that enters no window."""


class MethodSelector:
    """Chooses the method by which one peer is probed."""

    def __init__(self, mode: ProbeMode, first: ProbeMethod = ProbeMethod.ICMP) -> None:
        """first: the method to begin with, if the mode leaves a choice."""
        self.method = ProbeMethod.TCP if mode is ProbeMode.TCP else first
        self._fixed = mode is not ProbeMode.AUTO
        self._ever_answered = False
        self._silent = self._turn = 0

    def next_methods(self) -> tuple[ProbeMethod, ...]:
        """Returns the methods to probe with now: the current one, and the other when it is due for a try."""
        self._turn += 1
        other, due = ProbeMethod.TCP, self._icmp_is_silent and self._turn % _TRY_TCP_EVERY == 0
        if self.method is ProbeMethod.TCP:
            other, due = ProbeMethod.ICMP, self._turn % _TRY_ICMP_EVERY == 0
        return (self.method, other) if due and not self._fixed else (self.method,)

    def record_result(self, method: ProbeMethod, answered: bool) -> bool:
        """Takes a result. True when it changes the method: outcomes in the window are then of the old one."""
        if method is ProbeMethod.ICMP:
            self._silent = 0 if answered else self._silent + 1
            self._ever_answered = self._ever_answered or answered
        better = answered and method is not self.method and not self._fixed
        if not better or (method is ProbeMethod.TCP and not self._icmp_is_silent):
            return False
        self.method = method
        return True

    @property
    def icmp_blocked(self) -> bool:
        """Tells whether the peer answers TCP and not ICMP."""
        return self.method is ProbeMethod.TCP and not self._fixed

    @property
    def _icmp_is_silent(self) -> bool:
        return self._silent >= (_SILENT_IF_EVER_ANSWERED if self._ever_answered else _SILENT_IF_NEVER_ANSWERED)


class ProbeTarget:
    """A peer under probe: how it is probed and what its probes came to.

    endpoint: None when the address is none; the peer is then never probed.
    consecutive_losses: of probes sent since the last one that was answered.
    first_loss_seconds, last_answered_seconds: when the first of these and that one were sent, in monotonic seconds.
    """

    def __init__(self, peer: Peer, mode: ProbeMode, window_seconds: float) -> None:
        self.peer, self.endpoint = peer, parse_literal(peer.address)
        self.method_selector = MethodSelector(mode)
        self.counts = ProbeCounts()
        self.consecutive_losses = 0
        self.first_loss_seconds = self.last_answered_seconds = float("-inf")
        self.window = ProbeWindow(window_seconds)

    @property
    def is_silent(self) -> bool:
        return self.consecutive_losses >= LOSSES_OF_A_SILENT_PEER

    @property
    def answers(self) -> bool:
        """Tells whether it answered one of the last three probes. False while no probe has ended."""
        return not self.is_silent and self.last_answered_seconds > float("-inf")

    def record_answer(self, sent: float) -> None:
        """Takes an answer to a probe sent at monotonic seconds."""
        self.consecutive_losses = 0
        self.last_answered_seconds = max(self.last_answered_seconds, sent)

    def record_loss(self, sent: float) -> None:
        """Takes the loss of a probe sent at monotonic seconds. One sent before the last answered probe is no silence:
        a loss is known later than an answer."""
        if sent > self.last_answered_seconds:
            self.first_loss_seconds = self.first_loss_seconds if self.consecutive_losses else sent
            self.consecutive_losses += 1

    def silence(self, now: float) -> PeerSilence:
        """Says how long it has been silent at monotonic `now`."""
        last = self.window.last_reply_seconds
        age = None if last is None else round(max(0.0, now - last), 3)
        return PeerSilence(round(max(0.0, now - self.first_loss_seconds), 3), age)


_SILENCE_LIMIT_INTERVALS = 5
"""Intervals of common silence that make a local fault: two peers at 50 % loss reach it once in 1,000 times."""


class Probe(NamedTuple):
    target: ProbeTarget
    method: ProbeMethod


class PeerStats:
    """The peers under probe.

    targets: peer's name → its state.
    histogram: all RTTs since the start.
    counts: probes to all peers since the start, also to those that are peers no more.
    on_rtt: called with every round trip that counts: the peer's name, milliseconds.
    """

    def __init__(self, settings: ProbeSettings, on_silence: Callable[[], None] = lambda: None) -> None:
        """on_silence: called when a peer falls silent or a silent one answers."""
        self._window_seconds, self._mode = settings.window_seconds, settings.mode
        self._timeout_seconds, self._on_silence = settings.timeout_seconds, on_silence
        self._silence = LocalFaultDetector(self._patience_seconds(settings.interval_seconds))
        self.targets: dict[str, ProbeTarget] = {}
        self.on_rtt: Callable[[str, float], None] = lambda *_: None
        # A timeout is not counted: it is no latency.
        self.histogram = Histogram(
            "leadsman_rtt_seconds", "Round-trip times to all peers.", buckets=BUCKET_BOUNDS_SECONDS, registry=None
        )
        self.counts = ProbeCounts()

    def set_peers(self, peers: Iterable[Peer]) -> tuple[list[str], list[str]]:
        """Returns the names that were removed and added. A peer whose address changed is both, and its outcomes are
        dropped."""
        by_name = {peer.name: peer for peer in peers}
        removed = [n for n, t in self.targets.items() if n not in by_name or by_name[n].address != t.peer.address]
        for name in removed:
            del self.targets[name]
        added = [name for name in by_name if name not in self.targets]
        self.targets |= {name: ProbeTarget(by_name[name], self._mode, self._window_seconds) for name in added}
        return removed, added

    def set_timing(self, interval_seconds: float, window_seconds: float) -> None:
        """Sets the probe interval and the span of the windows."""
        self._window_seconds = window_seconds
        self._silence.silence_limit_seconds = self._patience_seconds(interval_seconds)
        for target in self.targets.values():
            target.window.span_seconds = window_seconds

    def use_tcp_only(self) -> None:
        self._mode = ProbeMode.TCP
        for target in self.targets.values():
            target.method_selector = MethodSelector(ProbeMode.TCP)

    def allow_icmp(self) -> None:
        """ICMP is tried again: a peer that is probed by TCP stays so until ICMP answers."""
        self._mode = ProbeMode.AUTO
        for target in self.targets.values():
            target.method_selector = MethodSelector(ProbeMode.AUTO, ProbeMethod.TCP)

    def start_round(self, now: float) -> None:
        """Call once a round, so that silence is timed only while there are peers that could answer."""
        self._silence.set_peer_count(sum(t.endpoint is not None for t in self.targets.values()), now)

    def record_sent(self, probe: Probe) -> None:
        """Counts a probe that was sent or was undeliverable. A try of the other method is not counted."""
        if probe.method is probe.target.method_selector.method:
            probe.target.counts.sent += 1
            self.counts.sent += 1

    def record_unsent(self, probe: Probe) -> None:
        """Counts a probe that did not leave this host: no loss, but the method failed."""
        probe.target.counts.unsent += 1
        self.counts.unsent += 1
        probe.target.method_selector.record_result(probe.method, answered=False)

    def record_result(self, probe: Probe, sent: float, result: ProbeResult) -> None:
        """Takes the result of a probe sent at monotonic seconds. Results of a peer that left or moved are dropped."""
        target = probe.target
        if self.targets.get(target.peer.name) is not target:
            return
        if target.method_selector.record_result(probe.method, answered=isinstance(result, Answered | Unusable)):
            target.window.clear()  # It holds one method only.
        if probe.method is target.method_selector.method:
            self._record_outcome(target, sent, result)

    def latencies(self, now: float) -> dict[str, PeerLatency]:
        """Maps each peer to its window at monotonic `now`. A peer without an outcome is absent; all are during a local
        fault."""
        if self.local_fault(now):
            return {}
        until = self._silence.losses_valid_until
        windows = {n: t.window.latency(now, t.method_selector.method, until) for n, t in self.targets.items()}
        return {name: latency for name, latency in windows.items() if latency.sent}

    def reachability(self, now: float) -> Reachability:
        """Tells which peers answer at monotonic `now`. One that neither answered nor lost three probes is absent."""
        ended = {name: target for name, target in self.targets.items() if target.answers or target.is_silent}
        return Reachability(
            losses={name: target.consecutive_losses for name, target in ended.items()},
            silences={name: target.silence(now) for name, target in ended.items() if target.is_silent},
            probed=len(ended),
            answering=sum(target.answers for target in ended.values()),
            local_fault=self.local_fault(now) or "",
        )

    def silent_peers(self, now: float) -> set[str]:
        """Peers that stopped answering and may have left. None during a local fault, which is this node's own."""
        if self.local_fault(now):
            return set()
        return {name for name, target in self.targets.items() if target.is_silent}

    def local_fault(self, now: float) -> str | None:
        """Says why no latency is known now; None when some are."""
        return self._silence.fault(now)

    def _record_outcome(self, target: ProbeTarget, sent: float, result: ProbeResult) -> None:
        if isinstance(result, Unusable):
            target.counts.unusable += 1
            self.counts.unusable += 1
            self._break_silence(sent)
        elif isinstance(result, Answered):
            target.window.add(sent, result.rtt_seconds * 1e3)
            self._with_silence(target, target.record_answer, sent)
            self.histogram.observe(result.rtt_seconds)
            self._break_silence(sent)
            self.on_rtt(target.peer.name, result.rtt_seconds * 1e3)
        else:
            target.counts.lost += 1
            self.counts.lost += 1
            if not self._silence.was_fault(sent):
                target.window.add(sent, None)
            self._with_silence(target, target.record_loss, sent)

    def _with_silence(self, target: ProbeTarget, record: Callable[[float], None], sent: float) -> None:
        was_silent = target.is_silent
        record(sent)
        if target.is_silent is not was_silent:
            self._on_silence()

    def _patience_seconds(self, interval_seconds: float) -> float:
        return _SILENCE_LIMIT_INTERVALS * interval_seconds + self._timeout_seconds

    def _break_silence(self, sent: float) -> None:
        gap = self._silence.record_reply(sent)
        if gap:
            for target in self.targets.values():
                target.window.forget_losses(*gap)
