"""Distinguishes a fault of this node, which hears nobody, from a peer that is gone. Pure.

When every peer is silent, the common cause is on this side: a cable, a firewall rule, a full conntrack table.
So a loss counts only once some peer has answered a probe sent no earlier, and the losses of a long common
silence are taken back. One peer alone proves nothing either way: with fewer than two, every loss counts.
"""

import math
from typing import NamedTuple

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
