"""A sliding window of the probes to one peer, summarised as a PeerLatency. Pure."""

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
