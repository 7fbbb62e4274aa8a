"""Runs all collectors that are not in quarantine every few seconds, and holds the latest reading in memory."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from agent.hardware.collector_threads import StuckCollector, run_collectors
from agent.hardware.collectors import default_collectors
from agent.hardware.reading import CollectorOutcome, HardwareReading, Overdue
from agent.hardware.samples import CollectFunction, HostRoots
from agent.hardware.summary import summarize
from agent.quarantine import Quarantine, after_overrun, is_over
from leadsman.state.records import Hardware
from leadsman.state.report_timing import stale_seconds

INTERVAL_SECONDS = 5.0
DEADLINE_SECONDS = 1.0

log = logging.getLogger(__name__)


class HardwareMonitor:
    """Reads the hardware in rounds; `latest` and `record` answer from memory.

    latest: the last reading; None before the first.
    """

    def __init__(
        self,
        roots: HostRoots,
        *,
        collectors: Mapping[str, CollectFunction] | None = None,
        clock: Callable[[], float] = time.monotonic,
        interval_seconds: float = INTERVAL_SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """collectors: name → function, all by default. clock: monotonic seconds.

        deadline_seconds: of each collector. A stuck one delays its round by so much.
        """
        self._roots, self._collectors, self._clock = (
            roots,
            default_collectors() if collectors is None else collectors,
            clock,
        )
        self._interval_seconds, self._deadline_seconds = interval_seconds, deadline_seconds
        self._quarantines: dict[str, Quarantine] = {}
        self._stuck: dict[str, StuckCollector] = {}
        self._before: HardwareReading | None = None
        self.latest: HardwareReading | None = None

    @property
    def rounds(self) -> int:
        """Completed rounds; the number stands still when the monitor hangs."""
        return self.latest.round if self.latest else 0

    async def run(self) -> None:
        """Runs rounds that never overlap, until cancelled. Stuck threads, which are daemons, may outlive it."""
        while True:
            began = self._clock()
            await self.run_round()
            await asyncio.sleep(max(0.0, self._interval_seconds - (self._clock() - began)))

    async def run_round(self) -> HardwareReading:
        """Runs every collector that is not in quarantine once."""
        todo = {name: collect for name, collect in self._collectors.items() if self._may_run(name)}
        run = await run_collectors(todo, self._roots, self._clock, self._deadline_seconds)
        self._settle(todo, run.stuck)
        outcomes = {name: run.outcomes.get(name) or self._overdue(name) for name in self._collectors}
        self._before, self.latest = self.latest, HardwareReading(self._clock(), self.rounds + 1, outcomes)
        return self.latest

    def record(self, now: float, oldest_seconds: float | None = None) -> Hardware | None:
        """The record for etcd; None while no reading is younger than oldest_seconds, at monotonic `now`.

        By default that is three intervals, as long as readers of the record trust it.
        """
        oldest = stale_seconds(self._interval_seconds) if oldest_seconds is None else oldest_seconds
        if self.latest is None or now - self.latest.at_seconds > oldest:
            return None
        return Hardware(summarize(self._before, self.latest))

    def _may_run(self, name: str) -> bool:
        quarantine = self._quarantines.get(name)
        return quarantine is None or is_over(quarantine, self._clock(), name in self._running())

    def _running(self) -> dict[str, StuckCollector]:
        self._stuck = {name: stuck for name, stuck in self._stuck.items() if stuck.thread.is_alive()}
        return self._stuck

    def _settle(self, ran: Mapping[str, CollectFunction], stuck: Mapping[str, StuckCollector]) -> None:
        """Releases collectors that finished in time, and puts those that did not into quarantine."""
        for name in ran.keys() - stuck.keys():
            if self._quarantines.pop(name, None):
                log.info("collector %s left quarantine: it finished within its deadline", name)
        for name, run in stuck.items():
            if name not in self._quarantines:
                log.warning("collector %s overran its deadline of %g s: quarantined", name, self._deadline_seconds)
            self._quarantines[name] = after_overrun(self._quarantines.get(name), run.began_seconds, self._clock())
        self._stuck.update(stuck)

    def _overdue(self, name: str) -> CollectorOutcome:
        quarantine = self._quarantines[name]
        return Overdue(quarantine.overruns, self._clock() - quarantine.began_seconds)
