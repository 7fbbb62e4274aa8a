"""Measures what recording and a shadow policy cost answers. `python -m benchmarks.observed`

Four extenders with the same changing state: one plain, one that records, one with a shadow policy that judges every
request, and a second plain one, whose ratio to the first says how well the machine can tell. They are asked in turn, a
few pods at a time, each round in another order, so that all meet the same noise; as kube-scheduler does, filter then
prioritize, with a pause before the next pod. Times are of one pod.

Printed is the p99 of all pods over that of the plain extender, with an interval of 95 % and whether that settles the
target. The interval is a bootstrap that draws whole rounds of 100 pods, the same ones for both (Davison and Hinkley,
Bootstrap Methods and their Application, 1997, 8.2.3: blocks): pods asked one after another meet the same noise.
The last rows are the geometric mean of all cases.
Switches: how often a pod made the extender's threads wait, for the interpreter or for anything else, children left out.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from msgspec import Struct
from numpy.typing import NDArray

from benchmarks.extender import Case, MeasuredServer, filter_body, start_server

TARGET = 1.05
"""Of the p99 of the plain extender, at most."""

PODS_A_ROUND, PODS_AT_A_TIME = 100, 5
DRAWS = 500
"""Of the bootstrap."""

REST_SECONDS = 0.02
"""After the pods of one server, so that what it has still to do does not meet the next one's."""
PAUSE_SECONDS = 0.002
"""kube-scheduler's own work on a pod, at its fastest."""

CASES = [
    Case("names", 100, "plain", 100, b"", 0),
    Case("names", 100, "delay", 100, b'"delay_node-00000":"50",', 0),
    Case("names", 1000, "delay", 1000, b'"delay_node-00000":"50",', 0),
    Case("names", 5000, "delay", 5000, b'"delay_node-00000":"50",', 0),
]


class Observed(Struct):
    """One of the servers.

    cpu_seconds: of it and its children. switches: voluntary ones, of its own threads.
    """

    name: str
    server: MeasuredServer
    process: psutil.Process
    cpu_seconds: float = 0.0
    switches: int = 0

    def children_mib(self) -> float:
        return sum(child.memory_info().rss for child in self.process.children()) / (1 << 20)

    def count(self, sign: int) -> None:
        """Begins counting with -1, and ends it with 1."""
        family = (self.process, *self.process.children())
        self.cpu_seconds += sign * sum(sum(each.cpu_times()[:2]) for each in family)
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            lines = (task / "status").read_text().splitlines()
            line = next(line for line in lines if line.startswith("voluntary_ctxt_switches"))
            self.switches += sign * int(line.split()[1])


class Ratio(NamedTuple):
    """p99 of one extender over that of the plain one, and the same of each draw of the bootstrap."""

    ratio: float
    draws: NDArray[np.float64]

    def text(self) -> str:
        low, high = np.percentile(self.draws, (2.5, 97.5))
        verdict = "met" if high <= TARGET else "not met" if low > TARGET else "open"
        return f"{self.ratio:5.2f} ({low:.2f} to {high:.2f}) {verdict:8}"


def measure(case: Case, rounds: int, pause_seconds: float) -> dict[str, Ratio]:
    """The ratio of each extender but the plain one, by its name."""
    body = filter_body(case)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shadow = folder / "shadow.yaml"
        shadow.write_text("scores: {nearest: {weight: 0.5}, pressure: {weight: 5}}\n")
        (folder / "recording").mkdir()
        observed = [
            _start(stack, "plain", case),
            _start(stack, "again", case),
            _start(stack, "record", case, "--record-dir", str(folder / "recording")),
            _start(stack, "shadow", case, "--shadow-policy", str(shadow)),
        ]
        bodies = [(body, observed[0].server.prioritize_body(body))]
        for one in observed:
            one.server.schedule_pods(bodies, 20)
        time.sleep(2.0)
        for one in observed:
            one.server.walls_ms.clear()
            one.count(-1)
        order = random.Random(1)
        for _ in range(rounds):
            _round(order.sample(observed, len(observed)), bodies, pause_seconds)
        for one in observed:
            one.count(1)
        ratios = report(case, observed)
        written = sum(path.stat().st_size for path in (folder / "recording").iterdir())
        print(f"{'':20}recording: {written / (rounds * PODS_A_ROUND * 2):,.0f} bytes a request", flush=True)
    return ratios


def _start(stack: ExitStack, name: str, case: Case, *more: str) -> Observed:
    server = stack.enter_context(start_server("benchmarks.extender_server", str(case.state), *more))
    return Observed(name, server, server.process)


def _round(observed: Sequence[Observed], bodies: Sequence[tuple[bytes, bytes]], pause_seconds: float) -> None:
    for _ in range(PODS_A_ROUND // PODS_AT_A_TIME):
        for one in observed:
            for _ in range(PODS_AT_A_TIME):
                one.server.schedule_pods(bodies, 1)
                time.sleep(pause_seconds)
            time.sleep(REST_SECONDS)


def report(case: Case, observed: Sequence[Observed]) -> dict[str, Ratio]:
    plain, ratios = observed[0], dict[str, Ratio]()
    for one in observed:
        walls = one.server.walls_ms
        cells = "  ".join(f"{np.percentile(walls, percent):7.2f}" for percent in (50, 95, 99))
        if one is not plain:
            ratios[one.name] = ratio_of_p99(walls, plain.server.walls_ms)
        compared = ratios[one.name].text() if one is not plain else ""
        print(
            f"{case.nodes:5} {case.pod:6} {one.name:7} {cells}   {compared:29}"
            f"{1000 * one.cpu_seconds / len(walls):7.2f}  {one.switches / len(walls):7.1f}"
            f"  {one.server.peak_mib():5.0f} + {one.children_mib():3.0f}",
            flush=True,
        )
    return ratios


def ratio_of_p99(walls: Sequence[float], plain_walls: Sequence[float]) -> Ratio:
    """walls, plain_walls: of whole rounds that were made at the same time."""
    own, its = (np.reshape(each, (-1, PODS_A_ROUND)) for each in (walls, plain_walls))
    rng, draws = np.random.default_rng(1), np.empty(DRAWS)
    for draw in range(DRAWS):
        rounds = rng.integers(len(own), size=len(own))
        draws[draw] = np.percentile(own[rounds], 99) / np.percentile(its[rounds], 99)
    return Ratio(float(np.percentile(own, 99) / np.percentile(its, 99)), draws)


def geometric_mean(ratios: Sequence[Ratio]) -> Ratio:
    draws = np.exp(np.mean([np.log(each.draws) for each in ratios], axis=0))
    return Ratio(float(np.exp(np.mean([np.log(each.ratio) for each in ratios]))), draws)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, help="only this many nodes")
    parser.add_argument("--rounds", type=int, default=60, help="of 100 pods of each extender (default 60)")
    parser.add_argument("--pause-ms", type=float, default=1000 * PAUSE_SECONDS, help="before the next pod")
    chosen = parser.parse_args()
    columns = "p50 ms   p95 ms   p99 ms   p99 x (interval)     target"
    print(f"nodes pod    server   {columns}   CPU ms  switches  MiB peak + shadow's")
    cases = [case for case in CASES if chosen.nodes in (None, case.nodes)]
    measured = [measure(case, chosen.rounds, chosen.pause_ms / 1000) for case in cases]
    for name in measured[0]:
        print(f"{'all':5} {'':6} {name:7} {'':25}   {geometric_mean([each[name] for each in measured]).text()}")


if __name__ == "__main__":
    main()
