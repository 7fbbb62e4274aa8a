"""The prober as peer refresh and probe requests use it."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from agent.rtt.peer import Peer
from agent.rtt.prober import Prober


class ProberAdapter(Struct, frozen=True):
    """clock: monotonic seconds, the same as the prober's."""

    prober: Prober
    clock: Callable[[], float]

    def probe_peers(self, peers: Iterable[Peer], interval_seconds: float, window_seconds: float) -> None:
        self.prober.set_timing(interval_seconds, window_seconds)
        self.prober.set_peers(peers)

    def probe_now(self, name: str) -> None:
        self.prober.probe_now(name)

    def measured_peers(self) -> Collection[str]:
        self.prober.take_replies()  # A probe that an extender waits for is reported with no turn's delay.
        return self.prober.latencies(self.clock())

    def silent_peers(self) -> Collection[str]:
        return self.prober.stats.silent_peers(self.clock())
