"""Measures what recording and a shadow policy cost answers. `python -m benchmarks.observed`

Three extenders with the same changing state: one plain, one that records, one with a shadow policy that judges every
request. They are asked in turn, a few pods at a time, so that all meet the same noise; as kube-scheduler does, filter
then prioritize, with a pause before the next pod. Times are of one pod. The ratios are to the plain one, each the
median of ten slices of the run, so that a burst of noise spoils a slice and not the figure.
"""

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
from msgspec import Struct

from benchmarks.extender import Case, MeasuredServer, filter_body, start_server

ROUNDS = 200
SLICES = 10
REST_SECONDS = 0.02
"""After the pods of one server, so that what it has still to do does not meet the next one's."""
PAUSE_SECONDS = 0.002
"""kube-scheduler's own work on a pod, at its fastest."""

CASES = [
    Case("names", 100, "plain", 100, b"", 2000),
    Case("names", 100, "delay", 100, b'"delay_node-00000":"50",', 2000),
    Case("names", 1000, "delay", 1000, b'"delay_node-00000":"50",', 1000),
    Case("names", 5000, "delay", 5000, b'"delay_node-00000":"50",', 400),
]


class Observed(Struct):
    """One of the servers. cpu_ms: of it and its children."""

    name: str
    server: MeasuredServer
    process: psutil.Process
    cpu_seconds: float = 0.0

    def children_mib(self) -> float:
        return sum(child.memory_info().rss for child in self.process.children()) / (1 << 20)

    def cpu(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in (self.process, *self.process.children()))


def measure(case: Case, pause_seconds: float) -> None:
    body = filter_body(case)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shadow = folder / "shadow.yaml"
        shadow.write_text("scores: {nearest: {weight: 0.5}, pressure: {weight: 5}}\n")
        (folder / "recording").mkdir()
        observed = [
            _start(stack, "plain", case),
            _start(stack, "record", case, "--record-dir", str(folder / "recording")),
            _start(stack, "shadow", case, "--shadow-policy", str(shadow)),
        ]
        bodies = (body, observed[0].server.prioritize_body(body))
        for one in observed:
            one.server.schedule_pods(bodies, 20)
            time.sleep(2.0)
            one.server.walls_ms, one.cpu_seconds = [], -one.cpu()
        for _ in range(ROUNDS):
            for one in observed:
                for _ in range(max(1, case.pods // ROUNDS)):
                    one.server.schedule_pods(bodies, 1)
                    time.sleep(pause_seconds)
                time.sleep(REST_SECONDS)
        for one in observed:
            one.cpu_seconds += one.cpu()
        report(case, observed)
        written = sum(path.stat().st_size for path in (folder / "recording").iterdir())
        print(f"{'':20}recording: {written / (case.pods * 2):,.0f} bytes a request", flush=True)


def _start(stack: ExitStack, name: str, case: Case, *more: str) -> Observed:
    server = stack.enter_context(start_server("benchmarks.extender_server", str(case.state), *more))
    return Observed(name, server, server.process)


def report(case: Case, observed: list[Observed]) -> None:
    plain = observed[0]
    for one in observed:
        walls = sorted(one.server.walls_ms)
        ratios = "  ".join(f"{_ratio(one, plain, percent):5.2f}" for percent in (50, 99))
        cells = "  ".join(f"{_percentile(walls, q):7.2f}" for q in (50, 95, 99))
        cpu = 1000 * one.cpu_seconds / len(walls)
        print(
            f"{case.nodes:5} {case.pod:6} {one.name:7} {cells}   {ratios}  {cpu:7.2f}"
            f"  {one.server.peak_mib():5.0f} + {one.children_mib():3.0f}",
            flush=True,
        )


def _ratio(one: Observed, plain: Observed, percent: float) -> float:
    length = len(plain.server.walls_ms) // SLICES
    slices = [slice(start, start + length) for start in range(0, length * SLICES, length)]
    return statistics.median(
        _percentile(sorted(one.server.walls_ms[each]), percent)
        / _percentile(sorted(plain.server.walls_ms[each]), percent)
        for each in slices
    )


def _percentile(walls: list[float], percent: float) -> float:
    return walls[min(len(walls) - 1, round(percent / 100 * len(walls)))] if percent != 50 else statistics.median(walls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="only this many nodes")
    parser.add_argument("--pause-ms", type=float, default=1000 * PAUSE_SECONDS, help="before the next pod")
    chosen = parser.parse_args()
    print("nodes pod    server   p50 ms   p95 ms   p99 ms  p50 x  p99 x  CPU ms  MiB peak + shadow's")
    for case in CASES:
        if chosen.nodes in (None, case.nodes):
            measure(case, chosen.pause_ms / 1000)


if __name__ == "__main__":
    main()
