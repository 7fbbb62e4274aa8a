"""How much memory each part of Leadsman has over time, and how large etcd's files are."""

import contextlib
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from tests.e2e.cluster import Cluster

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

    def __enter__(self) -> "GrowthWatch":
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
