"""Host trees unpacked from one text file each (see tests/data/hosts/README.md), and readings of them."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from agent.hardware import disks
from agent.hardware.kernel_files import CollectFunction, Labels
from agent.hardware.monitor import default_collectors
from agent.hardware.nvidia import NvidiaCollector
from agent.hardware.reading import HardwareReading, run_collector
from leadsman.plugin import HostRoots, MetricFamily
from tests.host_trees import HOSTS, unpack

SPACE = SimpleNamespace(total=100_000, used=60_000, free=35_000)
"""As psutil.disk_usage answers, the same for every path."""


def roots_of(root: Path) -> HostRoots:
    return HostRoots(str(root / "proc"), str(root / "sys"), str(root / "rootfs"))


Unpacked = Callable[[str], HostRoots]
Tree = Callable[[Mapping[str, str]], HostRoots]


@pytest.fixture(autouse=True)
def own_proc() -> Iterator[None]:
    """After each test psutil reads this machine's /proc again."""
    yield
    psutil.PROCFS_PATH = HostRoots().proc


@pytest.fixture
def unpacked(tmp_path: Path) -> Unpacked:
    """Host name → the roots of its unpacked tree."""

    def host(name: str) -> HostRoots:
        unpack((HOSTS / f"{name}.tree").read_text(), tmp_path / name)
        return roots_of(tmp_path / name)

    return host


@pytest.fixture
def server(unpacked: Unpacked) -> HostRoots:
    return unpacked("server")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Path → text of a tree of the test's own."""

    def write(files: Mapping[str, str]) -> HostRoots:
        unpack("".join(f"@ {path}\n{text}\n" for path, text in files.items()), tmp_path)
        return roots_of(tmp_path)

    return write


def scripted() -> dict[str, CollectFunction]:
    """The standard collectors, but for what a tree cannot hold: space on filesystems, this machine's GPUs."""
    space = functools.partial(disks.collect_filesystems, usage=lambda path: SPACE)
    return default_collectors() | {"filesystems": space, "nvidia": NvidiaCollector(no_package)}


def no_package() -> None:
    raise ImportError("pynvml")


def values(collect: CollectFunction, roots: HostRoots, family: MetricFamily) -> dict[Labels, float]:
    """A collector's samples of one family: labels → value."""
    found = [item for item in collect(roots) if getattr(item, "family", None) == family]
    return {sample.labels: sample.value for sample in found}


def reading_of(roots: HostRoots) -> HardwareReading:
    """All collectors on one tree, at a clock that stands still."""
    return HardwareReading(0.0, {name: run_collector(each, roots, lambda: 0.0) for name, each in scripted().items()})
