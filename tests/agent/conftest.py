"""An agent that reports to the verified memory store, with a clock of our own."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from agent.reporting import LoopLiveness, NodeRecords, Reporter
from leadsman.state import keys
from leadsman.state.records import AnyRecord, Hardware, Identity, Latency, decode_record
from leadsman.state.report_timing import ReportTiming
from tests.memory_store import MemoryStore

NODE = "edge-1"


class World:
    """One store, a clock that only `sleep` moves, and what the agent would measure."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.said: dict[type[AnyRecord], AnyRecord | None] = {Latency: Latency({}), Hardware: Hardware({"load1": 1.0})}
        self.rounds = 0
        self.timing = ReportTiming()
        self.slept: list[float] = []

    def reporter(
        self,
        owner: str = "uid-1",
        sleep: Callable[[float], Awaitable[None]] | None = None,
        spread: Callable[[], Awaitable[float]] | None = None,
        seed: int = 1,
    ) -> Reporter:
        progress = LoopLiveness({"probes": self}, 15.0, lambda: self.now)
        wanted = Identity(owner, 0, "10.0.0.1", "zone-a")
        return Reporter(
            *(self.store, NODE, wanted, lambda: self.timing, self.records, progress, Random(seed)),
            sleep=sleep or self.sleep,
            spread=spread,
        )

    def records(self) -> NodeRecords:
        return self.said

    async def sleep(self, seconds: float) -> None:
        assert len(self.slept) < 1000, "waits without end"
        self.slept.append(seconds)
        self.now += seconds

    async def stored(self) -> dict[type[AnyRecord], AnyRecord]:
        listing = await self.store.read_prefix(keys.node_prefix(NODE))
        kinds = {item.key: keys.RECORD_BY_KIND[item.key.rpartition("/")[2]] for item in listing.items}
        return {kinds[item.key]: decode_record(kinds[item.key], item.value) for item in listing.items}

    async def revisions(self) -> dict[str, int]:
        listing = await self.store.read_prefix(keys.node_prefix(NODE))
        return {item.key.rpartition("/")[2]: item.mod_revision for item in listing.items}


@pytest.fixture
def world() -> World:
    return World()
