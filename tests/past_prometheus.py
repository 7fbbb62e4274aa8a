"""A real Prometheus that has a past: its blocks are made by promtool, so nobody waits for scrapes."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.request import urlopen

import pytest

from extender.api.prometheus_queries import RTT
from leadsman.testbed.etcd import free_ports

needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")), reason="no prometheus: apt-get install prometheus"
)

READY_WITHIN_SECONDS = 60
DAY_SECONDS = 86_400
EVERY_SECONDS = 240
"""Between two samples; Prometheus takes the last one of five minutes."""

SLOW_MS, SLOW_HOURS_AGO, DAYS = 35.0, 20, 8

Labels = tuple[tuple[str, str], ...]
Series = Mapping[Labels, Callable[[float], float]]
"""Labels → the value at a moment, in Unix seconds."""


class Cluster(Protocol):
    names: list[str]
    slow: str


def ring_series(cluster: Cluster) -> Series:
    """Each node's round trips to its next two: (4 + 1 or 2) ms, half a ms more backwards. Those of the slow node are
    SLOW_MS longer in the last SLOW_HOURS_AGO."""
    slow_since, names = time.time() - 3600 * SLOW_HOURS_AGO, cluster.names
    series = {}
    for at, node in enumerate(names):
        for step in (-2, -1, 1, 2):
            peer = names[(at + step) % len(names)]
            usual_ms = 4 + abs(step) + 0.5 * (step < 0)
            moved_ms = SLOW_MS * (cluster.slow in (node, peer))
            series[labels(node, peer)] = _stepped(usual_ms, moved_ms, slow_since)
    return series


def labels(node: str, peer: str) -> Labels:
    return ("node", node), ("peer", peer)


def _stepped(usual_ms: float, moved_ms: float, since: float) -> Callable[[float], float]:
    return lambda at: (usual_ms + moved_ms * (at >= since)) / 1000


def prometheus_with(folder: Path, series: Series) -> AbstractContextManager[str]:
    """Its URL. It has the series of the last DAYS, and of an hour to come: a test may take long."""
    now = int(time.time())
    moments = range(now - DAYS * DAY_SECONDS, now + 3600, EVERY_SECONDS)
    samples = [f"# TYPE {RTT} gauge"]
    for pairs, value_at in series.items():
        shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
        samples += [f"{RTT}{{{shown}}} {value_at(at):.6f} {at}" for at in moments]
    return prometheus_of(folder, samples)


@contextmanager
def prometheus_of(folder: Path, samples: Sequence[str]) -> Iterator[str]:
    """Its URL. samples: lines of https://prometheus.io/docs/specs/om/open_metrics_spec/ without its end."""
    folder.mkdir()
    (folder / "samples").write_text("\n".join([*samples, "# EOF", ""]))
    (folder / "prometheus.yml").write_text("{}")
    made = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=720h", "openmetrics"]
    subprocess.run([*made, str(folder / "samples"), str(folder / "data")], check=True, capture_output=True)
    port = free_ports(1)[0]
    flags = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "storage.tsdb.retention.time": "1y",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["prometheus", *(f"--{name}={value}" for name, value in flags.items())], stdout=log, stderr=log
        )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while True:
        try:
            with urlopen(f"{url}/-/ready", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
