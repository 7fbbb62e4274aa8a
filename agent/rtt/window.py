"""Summarises what probes to a peer came to: a window of outcomes, counts that only grow, and whose fault a silence is.

A window and counters are kept for each peer; the detector of local faults looks at all of them together. Pure.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from leadsman.state.records import PeerLatency, ProbeMethod


class ProbeOutcome(NamedTuple):
    """A probe that ended. sent_seconds: monotonic. rtt_ms: None when it was lost."""

    sent_seconds: float
    rtt_ms: float | None


def _sent(outcome: ProbeOutcome) -> float:
    return outcome.sent_seconds


class ProbeWindow:
    """Outcomes in order of sending. A probe enters when it is answered or lost, so one under way counts as neither."""

    def __init__(self, span_seconds: float) -> None:
        self.span_seconds = span_seconds
        self._outcomes: list[ProbeOutcome] = []
        self.last_reply_seconds: float | None = None
        """Monotonic seconds; it outlives the span."""

    def add(self, sent: float, rtt_ms: float | None) -> None:
        """Adds one outcome. Outcomes may come in another order than their probes were sent."""
        if self._outcomes and sent < self._outcomes[-1].sent_seconds:
            insort(self._outcomes, ProbeOutcome(sent, rtt_ms), key=_sent)
        else:
            self._outcomes.append(ProbeOutcome(sent, rtt_ms))
        self._drop_before(self._outcomes[-1].sent_seconds - self.span_seconds)
        if rtt_ms is not None:
            self.last_reply_seconds = max(self.last_reply_seconds or 0.0, sent + rtt_ms / 1e3)

    def clear(self) -> None:
        self._outcomes.clear()

    def forget_losses(self, after: float, before: float) -> None:
        """Removes losses of probes sent strictly between the two times: they said nothing about the peer."""
        self._outcomes = [o for o in self._outcomes if o.rtt_ms is not None or not after < o.sent_seconds < before]

    def latency(self, now: float, method: ProbeMethod, losses_until: float = math.inf) -> PeerLatency:
        """Statistics of the span up to `now`. Losses of probes sent after `losses_until` are not counted yet."""
        self._drop_before(now - self.span_seconds)
        rtts = [o.rtt_ms for o in self._outcomes if o.rtt_ms is not None]
        lost = sum(o.rtt_ms is None and o.sent_seconds <= losses_until for o in self._outcomes)
        age = None if self.last_reply_seconds is None else max(0.0, now - self.last_reply_seconds)
        return _summary(rtts, lost, age, method)

    def _drop_before(self, start: float) -> None:
        del self._outcomes[: bisect_left(self._outcomes, start, key=_sent)]


def _summary(rtts: Sequence[float], lost: int, age: float | None, method: ProbeMethod) -> PeerLatency:
    ordered = sorted(rtts)
    return PeerLatency(
        sent=len(rtts) + lost,
        received=len(rtts),
        p50_ms=nearest_rank(ordered, 0.50),
        p95_ms=nearest_rank(ordered, 0.95),
        min_ms=ordered[0] if ordered else None,
        jitter_ms=jitter(rtts),
        last_reply_age_seconds=age,
        method=method,
    )


def nearest_rank(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` (0..1] of the values do not exceed: always one that was measured."""
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def jitter(rtts: Sequence[float]) -> float | None:
    """The mean absolute difference of consecutive values; None for fewer than two."""
    differences = [abs(b - a) for a, b in pairwise(rtts)]
    return sum(differences) / len(differences) if differences else None


# Counts that only grow, for metrics.

BUCKET_BOUNDS_SECONDS = tuple(50e-6 * 2**power for power in range(20))
"""Upper bounds of the buckets, doubling from 50 us to 26.2 s, as smokeping_prober's do."""


class RttHistogram:
    """Counts RTTs by bucket. A timeout is not counted: it is no latency."""

    __slots__ = ("_counts", "sum_seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKET_BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKET_BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds

    def cumulative_buckets(self) -> list[tuple[str, float]]:
        """Prometheus' shape: (upper bound, number of values up to it), the last bound +Inf."""
        total, rows = 0, []
        for bound, count in zip((*(f"{b:g}" for b in BUCKET_BOUNDS_SECONDS), "+Inf"), self._counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows


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


class SilentPeriod(NamedTuple):
    """Between two answered probes: when each was sent, in monotonic seconds."""

    after: float
    before: float


class LocalFaultDetector:
    def __init__(self, silence_limit_seconds: float) -> None:
        """silence_limit_seconds: a longer silence of all peers is a local fault.

        Much shorter, and two lossy peers would look like one; much longer, and false losses are reported for that long.
        """
        self.silence_limit_seconds = silence_limit_seconds
        self._since: float | None = None
        self._last_fault: SilentPeriod | None = None
        self._comparable = False

    def set_peer_count(self, peers: int, now: float) -> None:
        """Takes the number of probed peers. Call it every round."""
        self._comparable = peers >= _MIN_PEERS
        if self._since is None or not self._comparable:
            self._since = now

    def record_reply(self, sent: float) -> SilentPeriod | None:
        """Takes a reply to a probe sent at monotonic seconds. The silence that it ends, if that was a local fault."""
        before = self._since
        self._since = sent if before is None else max(before, sent)
        too_long = before is not None and self._comparable and sent - before > self.silence_limit_seconds
        if not too_long or before is None:
            return None
        self._last_fault = SilentPeriod(before, sent)
        return self._last_fault

    def was_fault(self, sent: float) -> bool:
        """Whether monotonic seconds `sent` are of the last local fault: what was lost then says nothing of a peer."""
        return self._last_fault is not None and self._last_fault.after < sent < self._last_fault.before

    @property
    def losses_valid_until(self) -> float:
        """Monotonic seconds. Losses of probes sent later are not evidence yet."""
        return self._since if self._comparable and self._since is not None else math.inf

    def fault(self, now: float) -> str | None:
        """Why no latency is known; None when some are."""
        if not self._comparable or self._since is None or now - self._since <= self.silence_limit_seconds:
            return None
        return f"no peer has answered for {now - self._since:.0f} s: the fault is on this node or on all paths from it"
