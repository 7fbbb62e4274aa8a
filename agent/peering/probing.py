"""The prober as the neighbours and the requests see it."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Struct

from agent.rtt.peer import Peer
from agent.rtt.prober import Prober


class Probing(Struct, frozen=True):
    """clock: monotonic seconds, the same as the prober's."""

    prober: Prober
    clock: Callable[[], float]

    def probe(self, peers: Iterable[Peer], interval_seconds: float, window_seconds: float) -> None:
        self.prober.keep_pace(interval_seconds, window_seconds)
        self.prober.set_peers(peers)

    def probe_now(self, name: str) -> None:
        self.prober.probe_now(name)

    def known(self) -> Collection[str]:
        return self.prober.latencies(self.clock())

    def silent(self) -> Collection[str]:
        return self.prober.ledger.silent(self.clock())
