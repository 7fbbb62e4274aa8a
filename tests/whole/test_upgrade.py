"""From the last release to this one and back, one process at a time, while bounded pods are asked for."""

import json
import sys
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from leadsman.cli.demo import scheduler_request
from leadsman.testbed.etcd import Etcd, free_ports
from tests.leadsman_process import LeadsmanProcess
from tests.whole.conftest import QUICK

if TYPE_CHECKING:
    from tests.whole.conftest import Until

pytestmark = pytest.mark.slow

LAST_RELEASE = Path(__file__).parents[1] / "data/releases/v0.1.0.tar.xz"
NODES = ["edge-1", "edge-2", "edge-3"]


class Release(NamedTuple):
    """How its processes start."""

    program: tuple[str, ...]
    folder: Path | None
    extender_flags: tuple[str, ...]


TODAY = Release((sys.executable, "-m", "leadsman.cli.main"), None, ("--drain-seconds=2",))


@pytest.fixture
def last_release(tmp_path: Path) -> Release:
    with tarfile.open(LAST_RELEASE) as archive:
        archive.extractall(tmp_path / "last", filter="data")
    return Release((sys.executable, "-m", "leadsman.main"), tmp_path / "last", ())


class Cluster:
    """Three agents and two extenders on fixed addresses, each of some release."""

    def __init__(self, etcd: Etcd, folder: Path, until: "Until") -> None:
        self._etcd, self._folder, self._until = etcd, folder, until
        self._ports = free_ports(7)
        self.processes: dict[str, LeadsmanProcess] = {}

    @property
    def extenders(self) -> list[LeadsmanProcess]:
        return [self.processes[name] for name in ("extender-1", "extender-2") if name in self.processes]

    def replace(self, name: str, release: Release) -> None:
        """Ends the process of this name, if there is one, as kubelet does, and starts it from this release."""
        if name in self.processes:
            self.processes[name].child.terminate()
            self.processes[name].child.wait(30)
        number = int(name[-1])
        if name.startswith("extender"):
            port, ops = self._ports[number], self._ports[number + 4]
            where = ["extender", "--plain-http", "--ops-listen", f"127.0.0.1:{ops}", *release.extender_flags]
            host = "127.0.0.1"
        else:
            port = ops = self._ports[0]
            host = f"127.0.3.{number}"
            where = ["agent", "--node-name", name, "--address", host, *QUICK]
        process = LeadsmanProcess(
            [*where, "--listen", f"{host}:{port}", "--etcd", self._etcd.client_url],
            f"http://{host}:{port}",
            f"http://{host}:{ops}",
            self._folder / f"{name}.log",
            program=release.program,
            cwd=release.folder,
        )
        self.processes[name] = process
        self._until(lambda: process.get("/readyz")[0] == 200, f"{name} ready: {process.log[-1000:]}")
        self._until(lambda: all(sees_all(each) for each in self.extenders), f"all nodes seen after {name}")

    def end(self) -> None:
        for process in self.processes.values():
            process.child.kill()
            process.child.wait()


def sees_all(extender: LeadsmanProcess) -> bool:
    """All nodes are fresh and measured, by records that it can read."""
    status, text = extender.get("/state?format=json")
    nodes = json.loads(text).get("nodes", {}) if status == 200 else {}
    return len(nodes) == len(NODES) and all(
        node["freshness"] == "fresh" and len(node["peers_p50_ms"]) == 2 for node in nodes.values()
    )


@pytest.fixture
def cluster(etcd: Etcd, tmp_path: Path, until: "Until") -> Iterator[Cluster]:
    one = Cluster(etcd, tmp_path, until)
    yield one
    one.end()


class Stream:
    """Asks for bounded pods until it is ended, of the next extender when one is silent, as kube-scheduler does."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._ended = cluster, threading.Event()
        self.counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> Counter[str]:
        self._ended.set()
        self._thread.join()
        return self.counts

    def _run(self) -> None:
        bodies = [
            (json.dumps(scheduler_request.captured_args(NODES, labels)).encode(), allowed)
            for labels, allowed in (({"delay_edge-1": "0"}, {"edge-1"}), ({"delay_nowhere": "50"}, set()))
        ]
        while not self._ended.wait(0.01):
            for body, allowed in bodies:
                self.counts["asked"] += 1
                kept = self._ask(body)
                self.counts["unanswered"] += kept is None
                self.counts["misplaced"] += not (kept or set()) <= allowed
                self.counts["placed"] += bool(kept)

    def _ask(self, body: bytes) -> set[str] | None:
        for extender in self._cluster.extenders:
            try:
                request = Request(f"{extender.url}/filter", body, {"Content-Type": "application/json"})
                with urlopen(request, timeout=5) as answer:
                    return set(json.load(answer)["NodeNames"] or ())
            except (URLError, OSError):
                continue
        return None


def test_no_pod_is_misplaced_on_the_way_to_this_release_and_back(cluster: Cluster, last_release: Release) -> None:
    names = [*NODES, "extender-1", "extender-2"]
    for name in names:
        cluster.replace(name, last_release)
    stream = Stream(cluster)
    try:
        for release in (TODAY, last_release):
            for name in names:
                cluster.replace(name, release)
    finally:
        counts = stream.end()
    assert counts["asked"] >= 500
    assert counts["placed"] > 0
    assert (counts["misplaced"], counts["unanswered"]) == (0, 0)


def test_extenders_of_both_releases_read_the_records_of_both(cluster: Cluster, last_release: Release) -> None:
    for name, release in zip(NODES, (last_release, TODAY, TODAY), strict=True):
        cluster.replace(name, release)
    for name, release in (("extender-1", last_release), ("extender-2", TODAY)):
        cluster.replace(name, release)
        state = json.loads(cluster.processes[name].get("/state?format=json")[1])
        assert state["problems"] == {}
