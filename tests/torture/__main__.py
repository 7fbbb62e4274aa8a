"""`python -m tests.torture`: runs the rows, prints the table, exits with 1 when a promise was broken."""

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from random import Random, SystemRandom

from leadsman.runtime.text_table import align_columns
from leadsman.testbed import virtual_network
from tests.torture import checker, control_plane_faults, etcd_faults, hostile, load, log, moving, node_faults
from tests.torture.cluster import Cluster, memory_limit, new_folder
from tests.torture.load import SchedulerClient
from tests.torture.log import Answered, Attacked, Injected, MemoryPeak
from tests.torture.recorder import Recorder
from tests.torture.rows import ROWS, Row, Stage
from tests.torture.shape import EXTENDERS

SETTLE_SECONDS = 2.0

FAULTS = control_plane_faults, etcd_faults, hostile, node_faults
"""Importing them adds their rows to ROWS."""


class Run:
    """One run: a cluster, what is recorded of it, and the rows."""

    def __init__(self, torn: Cluster, recorder: Recorder, client: SchedulerClient, seed: int) -> None:
        self._cluster, self._recorder, self._client, self._seed = torn, recorder, client, seed
        self._quiet_since = time.monotonic()
        self.skipped: dict[str, str] = {}

    async def rows(self, names: Sequence[str], until: float) -> None:
        """The named rows, or as many of all as fit; then overlaps while there is time."""
        shuffled = Random(f"rows {self._seed}").sample(list(ROWS.values()), len(ROWS))
        chosen = [ROWS[name] for name in names] or shuffled
        self.skipped = {row.name: why for row in chosen if (why := row.lacks(self._cluster))}
        able = [row for row in chosen if row.name not in self.skipped]
        for row in able:
            if names or fits(row, until - time.monotonic()):
                await self._together([(0.0, row)])
        groups = overlaps(able, self._seed)
        while not names and (group := next(groups)):
            if not all(fits(row, until - time.monotonic() - offset) for offset, row in group):
                return
            await self._together(group)

    async def _together(self, group: Sequence[tuple[float, Row]]) -> None:
        """Rows begun after their offsets; recovery counts from when the last of them is healed."""
        for process in self._cluster.processes.values():
            process.forget_peak()
        rows = [row for _, row in group]
        stages = [Stage(self._cluster, self._recorder, self._client, alone=len(group) == 1) for _ in group]
        began = await asyncio.gather(*(self._inject(stage, *each) for stage, each in zip(stages, group, strict=True)))
        healed_at = time.monotonic()
        last = Stage(self._cluster, self._recorder, self._client, alone=True)
        await last.recover(healed_at)
        until = time.monotonic()
        for row, stage, (at, failed) in zip(rows, stages, began, strict=True):
            recoveries = (*stage.recoveries, *last.recoveries)
            injected = Injected(at, row.name, self._quiet_since, healed_at, until, recoveries, failed)
            self._cluster.log.append(injected)
        self._note_peaks(" + ".join(row.name for row in rows), until)
        await self._at_rest(healed_at)

    async def _inject(self, stage: Stage, offset_seconds: float, row: Row) -> tuple[float, str]:
        """When it began, and why it failed; "" when it did not."""
        await asyncio.sleep(offset_seconds)
        print(f"{row.name}: {row.says}", file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            async with row.inject(stage):
                await asyncio.sleep(row.hold_seconds)
        except Exception as error:
            return began, f"{type(error).__name__}: {error}"
        return began, ""

    def _note_peaks(self, rows: str, at: float) -> None:
        for name, process in self._cluster.processes.items():
            limit_bytes = memory_limit(name.partition("-")[0])
            self._cluster.log.append(MemoryPeak(at, rows, name, process.peak_rss_bytes, limit_bytes))

    async def _at_rest(self, since: float) -> None:
        """Until every pair is measured again; then a moment of it, in which the known-good answers must be right."""
        await self._cluster.until(lambda: self._recorder.all_measured(since), "every pair measured")
        self._quiet_since = time.monotonic() + SETTLE_SECONDS
        await asyncio.sleep(2 * SETTLE_SECONDS)


# Which rows run when: the seed decides.

ROW_SECONDS = 14.0
"""Of a row beside its own hold: recovery, and a look at the cluster at rest."""

OVERLAPPING, OVERLAP_SECONDS = 3, 20.0
"""Rows at once, and the span in which they begin."""


def fits(row: Row, left_seconds: float) -> bool:
    return row.hold_seconds + ROW_SECONDS <= left_seconds


def overlaps(rows: Sequence[Row], seed: int) -> Iterator[list[tuple[float, Row]]]:
    """Without end: rows that touch different things, each with the seconds after which it begins."""
    rng = Random(f"overlaps {seed}")
    while True:
        chosen: list[Row] = []
        for row in rng.sample(rows, len(rows)):
            if len(chosen) < OVERLAPPING and not any(row.touches & other.touches for other in chosen):
                chosen.append(row)
        yield [(rng.uniform(0, OVERLAP_SECONDS) if place else 0.0, row) for place, row in enumerate(chosen)]


async def torture(torn: Cluster, names: Sequence[str], minutes: float) -> dict[str, str]:
    """Runs it and fills the cluster's log. Row → why it was skipped."""
    until = time.monotonic() + 60 * minutes
    async with torn.running(), SchedulerClient(torn) as client:
        recorder = Recorder(torn)
        loops = [asyncio.create_task(each, name=name) for name, each in recorder.loops().items()]
        try:
            await torn.until_ready(*torn.processes)
            began = time.monotonic()
            await torn.until(lambda: all(recorder.sees_all_fresh(name, began) for name in EXTENDERS), "fresh")
            await torn.until(lambda: recorder.all_measured(began), "every pair measured")
            steady = {**load.loops(torn, client, torn.seed), "moves": moving.move_pods(torn, client, torn.seed)}
            loops += [asyncio.create_task(each, name=name) for name, each in steady.items()]
            run = Run(torn, recorder, client, torn.seed)
            await asyncio.sleep(SETTLE_SECONDS)
            rows = asyncio.create_task(run.rows(names, until))
            await asyncio.wait([rows, *loops], return_when=asyncio.FIRST_COMPLETED)
            for task in (rows, *loops):
                if task.done():
                    task.result()
            return run.skipped
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)


HEAD = ("row", "load held", "slowest", "injected", "survived", "violations", "recovered in", "memory peak")


def table(run: checker.RunLog, violations: Sequence[checker.Violation]) -> str:
    """A line a row, then each violation."""
    rows = [HEAD, *(_cells(run, row, violations) for row in run.of(Injected))]
    broken = [f"{one.promise}  at {one.at:.1f}  [{one.row or 'no row'}]  {one.text}" for one in violations]
    return "\n".join([*align_columns(rows), "", *broken[:50], *(["…"] if len(broken) > 50 else [])])


def _cells(run: checker.RunLog, row: Injected, violations: Sequence[checker.Violation]) -> tuple[str, ...]:
    asked = checker.answers_during(run, row)
    broken = sum(row.row in one.row.split(" + ") and row.at <= one.at <= row.until for one in violations)
    attacks = sum(row.at <= one.at <= row.until for one in run.of(Attacked))
    peaks: dict[str, int] = {}
    for peak in run.of(MemoryPeak):
        if row.row in peak.row.split(" + ") and row.until <= peak.at <= row.until + 1:
            kind = peak.process.partition("-")[0]
            peaks[kind] = max(peak.peak_bytes >> 20, peaks.get(kind, 0))
    return (
        row.row,
        f"{checker.held_ratio(asked):.1%} of {len(asked)}",
        f"{1e3 * max((one.seconds for one in asked), default=0.0):.0f} ms",
        str(attacks or "-"),
        "NO" if broken else "yes",
        str(broken),
        "; ".join(f"{each.what} {checker.seconds_or_never(each.took_seconds)}" for each in row.recoveries),
        ", ".join(f"{kind} {mib} MiB" for kind, mib in peaks.items()),
    )


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long, start included (default 60)")
    parser.add_argument("--seed", type=int, help="order of the rows and all chance (default: drawn, and printed)")
    parser.add_argument("--only", metavar="ROW[,ROW]", default="", help="these rows, in this order, and no overlaps")
    parser.add_argument("--list", action="store_true", help="list the rows and exit")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{row.name:32}{row.says}" for row in ROWS.values()))
        return 0
    names = [name for name in args.only.split(",") if name]
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no such row: {', '.join(unknown)}; see --list")
    if missing := virtual_network.why_unavailable() or hostile.allow_descriptors():
        print(f"torture: {missing}", file=sys.stderr)
        return 2
    seed = SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    print(f"torture: seed {seed}, {args.minutes:g} minutes", flush=True)
    torn = Cluster(new_folder(seed), seed)
    try:
        skipped = asyncio.run(torture(torn, names, args.minutes))
    finally:
        log.write(torn.folder / "log.jsonl", torn.log)
    run, violations = checker.RunLog(torn.log), checker.check(torn.log)
    print(table(run, violations))
    print("\n".join(f"skipped {name}: {why}" for name, why in skipped.items()))
    did = f"{len(run.of(Injected))} rows, {len(run.of(Answered))} pods scheduled"
    print(f"{did}, {len(violations)} violations; seed {seed}")
    print(f"etcd ended by itself {torn.etcd_panics} times")
    if violations:
        print(f"logs: {torn.folder}")
        return 1
    shutil.rmtree(torn.folder)  # Hundreds of MiB that tell nothing.
    return 0


if __name__ == "__main__":
    sys.exit(main())
