"""The peers under probe and what their probes came to. No I/O: told of everything, asked by the report and /metrics."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent.rtt.counters import RttHistogram
from agent.rtt.endpoints import Endpoint
from agent.rtt.local_fault import LocalFaultDetector
from agent.rtt.peer import Locality, PathClass, Peer
from agent.rtt.probe_method import MethodSelector, ProbeMode
from agent.rtt.probe_result import Answered, ProbeResult, Unusable
from agent.rtt.probe_target import ProbeTarget
from agent.rtt.settings import ProbeSettings
from leadsman.state.records import PeerLatency, ProbeMethod

_SILENCE_LIMIT_INTERVALS = 5
"""Of common silence before it is a local fault: two peers at 50 % loss are silent that long once in 1,000 times."""


_SILENT_AFTER_LOSSES = 3
"""Probes lost in a row. At 5 % loss that happens once in 8,000 probes, and costs one read of the ring."""


class Probe(NamedTuple):
    """One question. endpoint: where the target was when it was asked."""

    target: ProbeTarget
    endpoint: Endpoint
    method: ProbeMethod


class PeerStats:
    """targets: peer's name → state. histograms: every RTT since the start, by class of path."""

    def __init__(
        self, settings: ProbeSettings, here: Locality, answered: Callable[[str, float], None] = lambda *_: None
    ) -> None:
        """answered: told of every round trip that counts: the peer's name, milliseconds."""
        self._window_seconds, self._mode, self._here = settings.window_seconds, settings.mode, here
        self._timeout_seconds, self._answered = settings.timeout_seconds, answered
        self._silence = LocalFaultDetector(self._patience_seconds(settings.interval_seconds))
        self.targets: dict[str, ProbeTarget] = {}
        self.histograms = {path: RttHistogram() for path in PathClass}

    def set_peers(self, peers: Iterable[Peer]) -> tuple[list[str], list[str]]:
        """The names that left and those that came. One whose address changed has done both: nothing of it is kept."""
        wanted = {peer.name: peer for peer in peers}
        left = [n for n, t in self.targets.items() if n not in wanted or wanted[n].address != t.peer.address]
        for name in left:
            del self.targets[name]
        came = [name for name in wanted if name not in self.targets]
        for name, peer in wanted.items():
            if name in self.targets:
                self.targets[name].set_peer(peer, self._here)
            else:
                self.targets[name] = ProbeTarget(peer, self._here, self._mode, self._window_seconds)
        return left, came

    def set_timing(self, interval_seconds: float, window_seconds: float) -> None:
        """Another interval and window from now on."""
        self._window_seconds = window_seconds
        self._silence.silence_limit_seconds = self._patience_seconds(interval_seconds)
        for target in self.targets.values():
            target.window.span_seconds = window_seconds

    def use_tcp_only(self) -> None:
        self._mode = ProbeMode.TCP
        for target in self.targets.values():
            target.method_selector = MethodSelector(ProbeMode.TCP)

    def start_round(self, now: float) -> None:
        """To be called once a round, so that a silence is timed only while there are peers to hear."""
        self._silence.set_peer_count(sum(t.endpoint is not None for t in self.targets.values()), now)

    def record_sent(self, probe: Probe) -> None:
        """A probe is under way, or was found undeliverable. A try of the other method counts nowhere."""
        probe.target.counts.sent += probe.method is probe.target.method_selector.method

    def record_unsent(self, probe: Probe) -> None:
        """No probe left this host: no loss, but the method has failed."""
        probe.target.counts.unsent += 1
        probe.target.record_result(probe.method, answered=False)

    def record_result(self, probe: Probe, sent: float, result: ProbeResult) -> None:
        """A probe sent at monotonic seconds was answered or lost. Nothing is kept of a peer that has left or moved."""
        target = probe.target
        if self.targets.get(target.peer.name) is not target or target.endpoint != probe.endpoint:
            return
        target.record_result(probe.method, answered=got_reply(result))
        if probe.method is target.method_selector.method:
            self._enter(target, sent, result)

    def latencies(self, now: float) -> dict[str, PeerLatency]:
        """Peer → its window at monotonic `now`. Absent: no outcome yet. Empty during a fault."""
        if self.local_fault(now):
            return {}
        until = self._silence.losses_valid_until
        found = {n: t.window.latency(now, t.method_selector.method, until) for n, t in self.targets.items()}
        return {name: latency for name, latency in found.items() if latency.sent}

    def silent_peers(self, now: float) -> set[str]:
        """Peers that may have left. Nobody during a fault, which is this node's."""
        if self.local_fault(now):
            return set()
        return {name for name, target in self.targets.items() if target.consecutive_losses >= _SILENT_AFTER_LOSSES}

    def local_fault(self, now: float) -> str | None:
        """Why nothing is known of any peer just now; None when something is. See `silence`."""
        return self._silence.fault(now)

    def _enter(self, target: ProbeTarget, sent: float, result: ProbeResult) -> None:
        if isinstance(result, Unusable):
            target.counts.unusable += 1
            self._break_silence(sent)
        elif isinstance(result, Answered):
            target.window.add(sent, result.rtt_seconds * 1e3)
            target.consecutive_losses = 0
            self.histograms[target.path_class].observe(result.rtt_seconds)
            self._break_silence(sent)
            self._answered(target.peer.name, result.rtt_seconds * 1e3)
        else:
            target.counts.lost += 1
            target.consecutive_losses += 1
            target.window.add(sent, None)

    def _patience_seconds(self, interval_seconds: float) -> float:
        return _SILENCE_LIMIT_INTERVALS * interval_seconds + self._timeout_seconds

    def _break_silence(self, sent: float) -> None:
        gap = self._silence.record_reply(sent)
        if gap:
            for target in self.targets.values():
                target.window.forget_losses(*gap)


def got_reply(result: ProbeResult) -> bool:
    return isinstance(result, Answered | Unusable)
