"""A soak: random rows one after another while one stream goes on, and what has grown meanwhile."""

import contextlib
import os
import random
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from tests.e2e.cluster import Cluster
from tests.e2e.rollout import Rollout
from tests.e2e.rows import INSTALLATIONS, SOAKED, Row
from tests.e2e.state_watch import StateWatch
from tests.e2e.stream import Stream
from tests.e2e.table import WHOLE_WITHIN_SECONDS, Result, Table, say


class Soak:
    """rollout: with `ignorable: false` for as long as it lasts, so that nothing may be misplaced."""

    def __init__(self, table: Table, cluster: Cluster, rollout: Rollout) -> None:
        self._table, self._cluster, self._rollout = table, cluster, rollout

    def run(self, minutes: float, seed: int) -> None:
        """On the last installation, which has all parts, and may be there from rows. The result is the table's last."""
        installation = INSTALLATIONS[-1]
        title = f"installation by {installation.title}"
        if self._table.installed != installation and not self._table.add(
            title, lambda: self._table.install(installation)
        ):
            return
        self._rollout.configure_scheduler(ignorable=False)
        stream, rng, done = self._table.new_stream("default-scheduler"), random.Random(seed), list[Result]()
        began = time.monotonic()

        def disturb() -> None:
            while time.monotonic() - began < minutes * 60:
                done.append(self._do(rng.choice(SOAKED)))
                self._say(time.monotonic() - began, done[-1], stream)

        with GrowthWatch(self._cluster) as watch:
            stream.during(disturb)
        self._note(time.monotonic() - began, seed, done, stream, watch)

    def _do(self, row: Row) -> Result:
        """not_whole_seconds: beyond what the row itself takes."""
        watch, longest, words = StateWatch(self._cluster), list[float](), list[str]()

        def disturb() -> str:
            longest.append(watch.during(lambda: words.append(row.disturb(self._cluster, self._rollout) or "")))
            return "".join(words)

        began = time.monotonic()
        kept, said = self._table.tried(disturb)
        not_whole = max(0.0, max(longest, default=0.0) - row.away_seconds)
        return Result(row.name, kept, time.monotonic() - began, said, None, not_whole)

    def _say(self, passed: float, done: Result, stream: Stream) -> None:
        seen, kept = stream.streamed, "kept" if done.kept else "broken"
        counts = f"{seen.sent:,} sent, {seen.misplaced} misplaced"
        say(f"{passed:5.0f} s  {done.title}: {kept} {done.said}; not whole {done.not_whole_seconds:.1f} s; {counts}")

    def _note(self, seconds: float, seed: int, done: Sequence[Result], stream: Stream, watch: "GrowthWatch") -> None:
        growths, seen = watch.growths(), stream.streamed
        broken = [f"{each.title}: {each.said}" for each in done if not each.kept]
        broken += [f"first misplaced: {seen.first_misplaced}"] if seen.misplaced else []
        broken += [f"{part} grew" for part, growth in growths.items() if not growth.is_flat]
        not_whole = max(each.not_whole_seconds for each in done)
        sizes = ", ".join(f"{part} {growth.first:.0f} → {growth.last:.0f}" for part, growth in growths.items())
        result = Result(
            f"soak of {len(done)} rows, seed {seed}",
            not (broken or seen.misplaced or seen.lost) and not_whole <= WHOLE_WITHIN_SECONDS,
            seconds,
            "; ".join([*broken, f"largest MiB in the first third and in the last: {sizes}"]),
            seen,
            not_whole,
        )
        self._table.note(result)


# How much memory each part of Leadsman has over time, and how large etcd's files are.

INTERVAL_SECONDS = 5.0
MOST_RATIO, MOST_MIB = 1.15, 8.0
"""By these the last third's largest may be above the first third's: processes begin again, at any moment."""

DATABASES = "var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/data/data/member/snap/db"
_POD = re.compile(rb"(?:^|\0)HOSTNAME=leadsman-(agent|etcd|extender|controller|scheduler)-")
_PROGRAMS = ("leadsman", "python", "etcd", "kube-scheduler")


class Growth(Struct, frozen=True):
    """MiB of a part's largest process, or of etcd's largest file: in the first third of the time, and in the last."""

    first: float
    last: float

    @property
    def is_flat(self) -> bool:
        return self.last <= MOST_RATIO * self.first + MOST_MIB


class GrowthWatch:
    """Samples from entry to exit."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._stop = cluster, threading.Event()
        self._samples = defaultdict[str, list[tuple[float, float]]](list)
        self._thread = threading.Thread(target=self._sample_all)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def growths(self) -> Mapping[str, Growth]:
        """By part."""
        third = (time.monotonic() - self._began) / 3
        early, late = self._began + third, self._began + 2 * third
        return {
            part: Growth(
                max((mib for at, mib in samples if at < early), default=0.0),
                max((mib for at, mib in samples if at > late), default=0.0),
            )
            for part, samples in sorted(self._samples.items())
        }

    def _sample_all(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            now = time.monotonic()
            for part, mib in (*_memories(), *self._databases()):
                self._samples[part].append((now, mib))

    def _databases(self) -> Iterator[tuple[str, float]]:
        for node in self._cluster.living:
            with contextlib.suppress(OSError):  # It is losing its power.
                for file in node.root_of_kubelet().glob(DATABASES):
                    yield "etcd's file", file.stat().st_size / 2**20


def _memories() -> Iterator[tuple[str, float]]:
    """Part and program, and the resident MiB, of each process of Leadsman's pods."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        folder = Path("/proc", pid)
        with contextlib.suppress(OSError):  # It has ended.
            program = (folder / "comm").read_text().strip()
            pod = _POD.search((folder / "environ").read_bytes()) if program.startswith(_PROGRAMS) else None
            if pod:
                pages = int((folder / "statm").read_text().split()[1])
                yield f"{pod[1].decode()}: {program}", pages * os.sysconf("SC_PAGE_SIZE") / 2**20
