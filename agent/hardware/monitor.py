"""Runs all collectors that are not in quarantine every few seconds, holds the latest reading in memory, and makes the
record for etcd and the metrics of it.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock, Thread, current_thread
from typing import Self

from prometheus_client import Metric

from agent.hardware import compute, disks, hwmon, network
from agent.hardware.kernel_files import CollectFunction
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import Absent, CollectorOutcome, Failed, HardwareReading, Measured, Overdue, run_collector
from agent.hardware.summary import summarize
from agent.quarantine import Quarantine, after_overrun, is_over
from leadsman.plugin import HostRoots, MetricFamily, Sample
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.state.records import Hardware
from leadsman.state.report_timing import stale_seconds

HWMON = "hwmon"


def default_collectors() -> dict[str, CollectFunction]:
    """Returns the collectors by name, in the order they run: plain /proc text first, what can hang last."""
    return {
        "cpu": compute.collect_cpu,
        "load": compute.collect_load,
        "memory": compute.collect_memory,
        "vmstat": compute.collect_vmstat,
        "pressure": compute.collect_pressure,
        "cgroup": compute.collect_cgroup,
        "disks": disks.collect_disks,
        "network": network.collect_network,
        "conntrack": network.collect_conntrack,
        "links": network.collect_links,
        "sriov": network.collect_sriov,
        "throttle": compute.collect_throttling,
        "edac": compute.collect_edac,
        "thermal": hwmon.collect_thermal,
        HWMON: hwmon.collect_hwmon,
        "filesystems": disks.collect_filesystems,
        "nvidia": NvidiaCollector(),
    }


StuckCollector = tuple[float, Thread]
"""When a collector that exceeded its deadline began, and the thread that it holds."""


class CollectorRun:
    """One run of all collectors, one after the other in one thread.

    A collector that exceeds its deadline keeps the thread, and a fresh one takes the rest: a run without trouble costs
    one thread, and each stuck collector holds exactly one. The threads are daemons, since a read that hangs in a driver
    cannot be interrupted and must not hold up the process's exit.
    """

    def __init__(
        self,
        todo: Mapping[str, CollectFunction],
        roots: HostRoots,
        clock: Callable[[], float],
        deadline_seconds: float,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        """on_progress: called under the lock when a collector finished or was given up."""
        self.outcomes: dict[str, CollectorOutcome] = {}
        self.stuck: dict[str, StuckCollector] = {}
        self._todo, self._roots = deque(todo.items()), roots
        self._clock, self._deadline_seconds, self._on_progress = clock, deadline_seconds, on_progress
        self._lock, self._thread = Lock(), Thread()
        self._running: tuple[str, float] | None = None
        self._loop, self._finished = asyncio.get_running_loop(), asyncio.Event()

    async def complete(self) -> Self:
        """Runs all collectors. Each stuck collector adds at most its deadline to the time that the others take."""
        try:
            self._start_thread()
            while not await self._finishes_in_time():
                self._replace_stuck_thread()
        finally:
            with self._lock:  # Cancelled: no further collector begins.
                self._todo.clear()
        return self

    async def _finishes_in_time(self) -> bool:
        running = self._running
        seconds = self._deadline_seconds - (self._clock() - running[1] if running else 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0)):  # wait_for loses cancellations before Python 3.12
                await self._finished.wait()
        return self._finished.is_set()

    def _replace_stuck_thread(self) -> None:
        """Works under the lock, so that the collector found overdue is the last of its thread."""
        with self._lock:
            if self._running and self._clock() - self._running[1] >= self._deadline_seconds:
                self.stuck[self._running[0]] = self._running[1], self._thread
                self._on_progress()
                self._start_thread()

    def _start_thread(self) -> None:
        self._running, self._thread = None, Thread(target=self._work, name="hardware", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        thread = current_thread()
        while item := self._take(thread):
            outcome = run_collector(item[1], self._roots, self._clock)
            with self._lock:
                if thread is self._thread:
                    self.outcomes[item[0]] = outcome
                    self._on_progress()
        if thread is self._thread:
            with contextlib.suppress(RuntimeError):  # The loop ended while a read hung: nobody waits.
                self._loop.call_soon_threadsafe(self._finished.set)

    def _take(self, thread: Thread) -> tuple[str, CollectFunction] | None:
        with self._lock:
            if thread is not self._thread:
                return None
            item = self._todo.popleft() if self._todo else None
            self._running = (item[0], self._clock()) if item else None
            return item


INTERVAL_SECONDS = 5.0
DEADLINE_SECONDS = 1.0

log = logging.getLogger(__name__)


class HardwareMonitor:
    """Reads the hardware in rounds; `latest` and `record` answer from memory.

    latest: the last reading; None before the first.
    rounds: completed ones, and collectors that finished or were given up; it stands still when the monitor hangs.
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
        self._roots, self._clock = roots, clock
        self._collectors = default_collectors() if collectors is None else collectors
        self._interval_seconds, self._deadline_seconds = interval_seconds, deadline_seconds
        self._quarantines: dict[str, Quarantine] = {}
        self._stuck: dict[str, StuckCollector] = {}
        self._values: dict[str, float] = {}
        self._problems: dict[str, ProblemLog] = {}
        self.latest: HardwareReading | None = None
        self.rounds = 0

    async def run(self) -> None:
        """Runs rounds that never overlap, until cancelled. Stuck threads, which are daemons, may outlive it."""
        while True:
            began = self._clock()
            await self.run_round()
            await asyncio.sleep(max(0.0, self._interval_seconds - (self._clock() - began)))

    async def run_round(self) -> HardwareReading:
        """Runs every collector that is not in quarantine once."""
        collectors = self._collectors_by_chip()
        self._stuck = {name: stuck for name, stuck in self._stuck.items() if stuck[1].is_alive()}
        todo = {name: collect for name, collect in collectors.items() if self._may_run(name)}
        run = CollectorRun(todo, self._roots, self._clock, self._deadline_seconds, self._count_progress)
        await run.complete()
        self._settle(todo, run.stuck)
        outcomes = {name: run.outcomes.get(name) or self._overdue(name) for name in collectors}
        for name, outcome in outcomes.items():
            self._log_fault(name, outcome)
        self._count_progress()
        before, self.latest = self.latest, HardwareReading(self._clock(), outcomes)
        self._values = summarize(before, self.latest)
        return self.latest

    def record(self, now: float) -> Hardware | None:
        """Returns the record for etcd; None while no reading is younger than three intervals, as long as readers trust
        it."""
        if self.latest is None or now - self.latest.at_seconds > stale_seconds(self._interval_seconds):
            return None
        return Hardware(self._values)

    def _count_progress(self) -> None:
        self.rounds += 1

    def _collectors_by_chip(self) -> Mapping[str, CollectFunction]:
        """Each chip of hwmon is a collector of its own: a driver that hangs takes its chip's series and no other's."""
        try:
            chips = hwmon.chips(self._roots) if HWMON in self._collectors else []
        except OSError:  # which the collector reports
            chips = []
        if not chips:
            return self._collectors
        rest = {name: collect for name, collect in self._collectors.items() if name != HWMON}
        return rest | {chip: partial(hwmon.collect_chip, chip) for chip in chips}

    def _may_run(self, name: str) -> bool:
        quarantine = self._quarantines.get(name)
        return quarantine is None or is_over(quarantine, self._clock(), name in self._stuck)

    def _settle(self, ran: Mapping[str, CollectFunction], stuck: Mapping[str, StuckCollector]) -> None:
        """Releases collectors that finished in time, and puts those that did not into quarantine."""
        for name in ran.keys() - stuck.keys():
            if self._quarantines.pop(name, None):
                log.info("collector %s left quarantine: it finished within its deadline", name)
        for name, (began_seconds, _) in stuck.items():
            if name not in self._quarantines:
                log.warning("collector %s overran its deadline of %g s: quarantined", name, self._deadline_seconds)
            self._quarantines[name] = after_overrun(self._quarantines.get(name), began_seconds, self._clock())
        self._stuck.update(stuck)

    def _log_fault(self, name: str, outcome: CollectorOutcome) -> None:
        """Logs what a collector could not read, once however long it lasts."""
        faults = outcome.faults if isinstance(outcome, Measured) else ()
        if isinstance(outcome, Failed):
            faults = (outcome.error,)
        if faults:
            begins, ends = f"collector {name} cannot read all", f"collector {name} reads all again"
            self._problems.setdefault(name, ProblemLog(log, begins, ends)).report("; ".join(faults), kind="fault")
        elif name in self._problems and not isinstance(outcome, Overdue):
            self._problems[name].clear()

    def _overdue(self, name: str) -> CollectorOutcome:
        quarantine = self._quarantines[name]
        return Overdue(quarantine.overruns, self._clock() - quarantine.began_seconds)


# Metrics of the latest reading, made from memory: a scrape reads no file and waits for no sensor.
#
# Names and meanings are node_exporter's behind `leadsman_`, in snake_case throughout, which `promtool check metrics`
# asks for (memory_available_bytes, not memory_MemAvailable_bytes). The number of series is bounded by the hardware,
# not by the cores or the pods.

_PREFIX = "leadsman_"


def hardware_metrics(latest: HardwareReading | None, show_hardware: bool = True) -> Iterator[Metric]:
    """Returns all metrics of the reading; none before the first.

    show_hardware: False leaves only the collectors' own metrics, for nodes whose hardware node_exporter shows already.
    """
    if latest is None:
        return
    # A collector with nothing to read succeeded.
    for name, text, value in (
        (
            "success",
            "1 when the collector's last run had no fault; 0 also while it is quarantined.",
            lambda outcome: isinstance(outcome, Absent) or (isinstance(outcome, Measured) and not outcome.faults),
        ),
        (
            "duration_seconds",
            "Duration of the collector's last run, or of its present one.",
            lambda outcome: outcome.duration_seconds,
        ),
        (
            "absent",
            "1 when this node has no such hardware, driver or kernel feature; that is no fault.",
            lambda outcome: isinstance(outcome, Absent),
        ),
        (
            "quarantined",
            "1 while the collector is quarantined after it exceeded its deadline.",
            lambda outcome: isinstance(outcome, Overdue),
        ),
    ):
        values = {collector: float(value(outcome)) for collector, outcome in latest.outcomes.items()}
        yield gauge(f"{_PREFIX}collector_{name}", text, values, "collector")
    grouped: dict[str, list[Sample]] = {}
    for sample, _ in latest.samples() if show_hardware else ():
        grouped.setdefault(sample.family.name, []).append(sample)
    for samples in grouped.values():
        yield metric_of(samples[0].family, samples)


def metric_of(family: MetricFamily, samples: list[Sample]) -> Metric:
    kind = counter if family.kind == "counter" else gauge
    return kind(_PREFIX + family.name, family.help, {each.labels: each.value for each in samples}, *family.labels)
