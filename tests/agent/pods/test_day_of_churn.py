"""A day of peers, pods and etcds that come and go, on a virtual clock: what the agent holds afterwards is what it held
after some hours. Objects are counted, as memory of the process also depends on malloc."""

import gc
import logging
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from agent.peering.peer_refresh import PeeringSettings, PeerRefresher
from agent.pods.incident_ledger import CountedTotals, IncidentLedger
from agent.pods.reward_persistence import RewardPersistence
from agent.reporting import LoopLiveness, Reporter
from agent.rtt.icmp import DualTimestamp
from agent.rtt.peer import Answered, Lost, ProbeSettings
from agent.rtt.peer_stats import Probe
from agent.rtt.prober import Prober
from leadsman.state import keys
from leadsman.state.records import Identity, Latency, Reachability, RingCoordinate, RingEntry, encode_record
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import Delete, Put, StoreError
from tests.agent.pods import given
from tests.memory_store import MemoryStore

NODE, NODES, PEERS, PODS = "edge-1", 60, 16, 40
STEP_SECONDS = 60.0
STEPS_PER_HOUR = 60
UNIX = 1_772_366_400.0
MOST_GROWTH_RATIO = 1.1
"""Windows and candidates vary by some percent. One object that is left each minute makes 1.7 in 20 hours."""


class Day:
    """The parts of an agent that hold what they saw, and the cluster around it."""

    def __init__(self) -> None:
        self.now, self.rng = 1000.0, Random(1)
        self.store = MemoryStore(clock=self.clock)
        self.prober = Prober(ProbeSettings(), clock=lambda: DualTimestamp(int(self.now * 1e9), int(self.now * 1e9)))
        timing = ReportTiming()
        peering = PeeringSettings(timing, 1.0, 30.0)
        self.refresher = PeerRefresher(
            self.store, NODE, PEERS, peering, self.prober, lambda: None, self.clock, self.rng
        )
        self.prober.stats.on_rtt = self.refresher.own_coordinate.update
        identity, liveness = Identity("uid", 0, "10.0.0.1"), LoopLiveness({}, 1e9, self.clock)
        self.reporter = Reporter(
            self.store, NODE, identity, lambda: timing, self._records, liveness, self.rng, self._no_sleep
        )
        self.persistence = RewardPersistence(self.store, NODE, lambda: self.reporter.ownership, self.rng)
        self.ledger = IncidentLedger({}, CountedTotals(), False, self.clock, lambda: UNIX + self.now)
        self.pods = dict[str, Any]()
        self._serial = 0

    def clock(self) -> float:
        return self.now

    async def pass_hours(self, hours: int) -> None:
        for _ in range(hours):
            self.store.wipe()  # etcd lost its data: the claim, all records, the ring
            await self._write_ring(range(NODES))
            for _ in range(STEPS_PER_HOUR):
                self.now += STEP_SECONDS
                await self._step()

    def held_objects(self) -> int:
        """Objects that the agent's parts reach; without code, the store, and loggers, which lead to pytest."""
        seen = {id(self.store), id(self)}
        waiting: list[object] = [self.refresher, self.prober, self.reporter, self.persistence, self.ledger]
        while waiting:
            each = waiting.pop()
            if id(each) not in seen and not isinstance(each, _CODE):
                seen.add(id(each))
                waiting += gc.get_referents(each)
        return len(seen)

    async def _step(self) -> None:
        """A minute: two nodes leave, two others join, pods end, fail and start, and all loops of the agent turn."""
        gone, new = self.rng.sample(range(NODES), 2), self.rng.sample(range(NODES), 2)
        await self.store.write([Delete(keys.record_key(f"node-{number:03}", RingEntry)) for number in gone])
        await self._write_ring(new)
        await self.refresher.refresh()
        self.prober._schedule.due(self.now)
        for target in list(self.prober.stats.targets.values()):
            probe = Probe(target, target.method_selector.method)
            result = Answered(self.rng.uniform(0.001, 0.02)) if self.rng.random() > 0.1 else Lost()
            self.prober.stats.record_sent(probe)
            self.prober.stats.record_result(probe, self.now, result)
        self._change_pods()
        try:
            await self.reporter.report()
        except StoreError:  # As after a wipe: the loop goes on with the next report.
            await self.reporter.report()
        await self.persistence.save(self.ledger)

    def _change_pods(self) -> None:
        """One pod of a new type a minute, which crashes; the oldest go."""
        self._serial += 1
        name = f"job-{self._serial}"
        pod = given.pod("Running", given.restarted(self._serial % 3), uid=name, name=name, labels={"app": name})
        self.pods[name] = pod
        self.ledger.on_pod_updated(pod)
        if len(self.pods) > PODS:
            oldest = next(iter(self.pods))
            self.ledger.on_pod_deleted(self.pods.pop(oldest))
        self.ledger.credit_health()

    async def _write_ring(self, numbers: Any) -> None:
        entries = {
            f"node-{number:03}": RingEntry(
                f"10.0.1.{number}", coordinate=RingCoordinate((number / 10, 0.0, 0.0, 0.0), 0.1, 0.0, 0.2), reach_ms=5.0
            )
            for number in numbers
        }
        await self.store.write(
            [Put(keys.record_key(name, RingEntry), encode_record(entry)) for name, entry in entries.items()]
        )

    def _records(self) -> Any:
        return {
            Latency: Latency(self.prober.stats.latencies(self.now)),
            Reachability: self.prober.stats.reachability(self.now),
            RingEntry: self.refresher.ring_entry("10.0.0.1"),
        }

    async def _no_sleep(self, seconds: float) -> None:
        self.now += seconds


_CODE = (ModuleType, type, logging.Logger, FunctionType, BuiltinFunctionType, MethodType, property)


async def test_a_day_of_churn_leaves_nothing_behind() -> None:
    day = Day()
    await day.pass_hours(4)
    early = day.held_objects()
    await day.pass_hours(20)
    assert day.held_objects() <= MOST_GROWTH_RATIO * early
