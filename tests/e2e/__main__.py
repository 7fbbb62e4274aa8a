"""`make e2e`: the rows of the end-to-end table, on real kubelets. Exit status 1 when a row breaks its promise.

    python -m tests.e2e [--rate PODS_A_SECOND] [--rounds N] [--folder DIR] [--only ROW]

Skips with one line where this machine cannot: it says what would bring it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT, Images
from tests.e2e.needs import Missing, find_binaries
from tests.e2e.rollout import Rollout
from tests.e2e.stream import Stream, Streamed

STREAM_NODE = "node-1"
LOST_NODE = 2
MAY_BE_MISPLACED_BY_A_LOSS = 3
"""With `ignorable: true`: what kube-scheduler asked a replica whose node has just died (docs/deploying.md)."""


class Row(Struct, frozen=True):
    """may_be_misplaced: pods bound elsewhere than their bound allows, that break no promise of ours."""

    name: str
    disturb: Callable[[Cluster, Rollout], None]
    may_be_misplaced: int = 0


def _restart(what: str) -> Callable[[Cluster, Rollout], None]:
    return lambda _, rollout: rollout.update(what)


def _lose_and_return(cluster: Cluster, rollout: Rollout) -> None:
    node = cluster.nodes[LOST_NODE - 1]
    node.lose()
    cluster.until(lambda: not cluster.is_ready(node.name), f"{node.name} is NotReady")
    node.start(cluster.images)
    cluster.until(lambda: cluster.is_ready(node.name), f"{node.name} is Ready")
    rollout.wait("deployment/leadsman-extender")


ROWS = (
    Row("rolling update of the extender", _restart("deployment/leadsman-extender")),
    Row("rolling update of the agents", _restart("daemonset/leadsman-agent")),
    Row("rolling update of the controller", _restart("deployment/leadsman-controller")),
    Row("loss of a node, and its return", _lose_and_return, MAY_BE_MISPLACED_BY_A_LOSS),
)


def main(arguments: Sequence[str]) -> int:
    args = _parser().parse_args(arguments)
    try:
        binaries = find_binaries()
    except Missing as missing:
        _say(f"make e2e: skipped: {missing}")
        return 0
    folder = args.folder or Path(tempfile.mkdtemp(prefix="leadsman-e2e-"))
    images = folder / "images"
    began = time.monotonic()
    overlay = [str(binaries / "kubectl"), "kustomize", str(ROOT / "daemonset/overlay")]
    Images(images, subprocess.run(overlay, capture_output=True, text=True, check=True).stdout).build()
    _say(f"images built in {time.monotonic() - began:.0f} s; the state is in {folder}")
    began = time.monotonic()
    with Cluster(binaries, folder / "cluster", images) as cluster:
        _say(f"{len(cluster.nodes)} nodes Ready in {time.monotonic() - began:.0f} s")
        began = time.monotonic()
        rollout = Rollout(cluster, folder / "operator")
        rollout.apply()
        _say(f"Leadsman rolled out in {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.0f}\n")
        columns = f"{'seconds':>8}{'sent':>7}{'misplaced':>11}{'lost':>6}{'bound after s: median':>26}{'longest':>10}"
        _say(f"{'row':34}{columns}")
        rows = [row for row in ROWS if args.only in row.name]
        promised = [_run(row, cluster, rollout, args.rate) for _ in range(args.rounds) for row in rows]
    return 0 if all(promised) else 1


def _run(row: Row, cluster: Cluster, rollout: Rollout, rate: float) -> bool:
    """Whether it kept its promise."""
    began, seconds = time.monotonic(), 0.0

    def disturb() -> None:
        nonlocal seconds
        row.disturb(cluster, rollout)
        seconds = time.monotonic() - began

    streamed = Stream(cluster.api, STREAM_NODE, rate).during(disturb)
    kept = streamed.misplaced <= row.may_be_misplaced and not streamed.lost
    _say(_line(row.name, seconds, streamed) + ("" if kept else "  BROKEN"))
    return kept


def _line(name: str, seconds: float, streamed: Streamed) -> str:
    counts = f"{streamed.sent:>7}{streamed.misplaced:>11}{streamed.lost:>6}"
    return f"{name:34}{seconds:>8.1f}{counts}{streamed.median_seconds:>26.2f}{streamed.longest_seconds:>10.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make e2e", description="Leadsman on real kubelets, under a stream of pods.")
    parser.add_argument("--rate", type=float, default=5.0, help="pods a second (default 5)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each row is run (default 1)")
    parser.add_argument("--folder", type=Path, help="where images and state go; a second run with it is quicker")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
