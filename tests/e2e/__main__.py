"""`make e2e`: the rows of the end-to-end table, on real kubelets. Exit status 1 when a row breaks its promise.

    python -m tests.e2e [--rate PODS_A_SECOND] [--rounds N] [--folder DIR] [--rows NAME,NAME]

Skips with one line where this machine cannot: it says what would bring it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import Skipped
from tests.e2e.images import ROOT, Images
from tests.e2e.leaving import everything, uninstall
from tests.e2e.needs import Missing, find_binaries
from tests.e2e.rollout import Rollout
from tests.e2e.rows import REMOVAL, ROWS, Demo, Row
from tests.e2e.state_watch import StateWatch
from tests.e2e.stream import Stream, Streamed

COLUMNS = (
    f"{'row':40}{'seconds':>8}{'sent':>7}{'misplaced':>11}{'lost':>6}{'state whole after s':>21}{'longest wait s':>16}"
)


def main(arguments: Sequence[str]) -> int:
    args = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that no node outlives this.
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
        return 0 if Table(cluster, Rollout(cluster, folder / "operator"), args.rate).run(args.rows, args.rounds) else 1


class Table:
    """Runs rows one after another and prints each as it ends."""

    def __init__(self, cluster: Cluster, rollout: Rollout, rate: float) -> None:
        self._cluster, self._rollout, self._rate = cluster, rollout, rate
        self._sent = self._misplaced = self._lost = 0

    def run(self, names: Sequence[str], rounds: int) -> bool:
        """Installs, runs the rows of these names, and removes if asked to. Whether all promises were kept."""
        before = everything(self._cluster)
        began = time.monotonic()
        self._rollout.install()
        self._cluster.until(StateWatch(self._cluster).is_whole, "all nodes' reports are seen")
        _say(f"installed in {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.0f}\n\n{COLUMNS}")
        chosen = [row for row in ROWS if row.name in names]
        kept = [self._kept(row) for _ in range(rounds) for row in chosen]
        _say(f"{'all rows':40}{'':>8}{self._sent:>7}{self._misplaced:>11}{self._lost:>6}")
        if REMOVAL in names:
            kept.append(self._removed(before))
        return all(kept)

    def _kept(self, row: Row | Demo) -> bool:
        try:
            return self._demo(row) if isinstance(row, Demo) else self._row(row)
        except Skipped as skipped:
            _say(f"{row.title:40}skipped: {skipped}")
            return True
        except Exception:  # The other rows say more than none.
            _say(f"{row.title:40}BROKEN\n{traceback.format_exc()}")
            return False

    def _row(self, row: Row) -> bool:
        began, seconds, whole_after = time.monotonic(), 0.0, 0.0

        def disturb() -> None:
            nonlocal seconds, whole_after
            whole_after = StateWatch(self._cluster).during(lambda: row.disturb(self._cluster, self._rollout))
            seconds = time.monotonic() - began

        streamed = Stream(self._cluster.api, self._cluster.nodes[0].name, self._rate).during(disturb)
        self._sent += streamed.sent
        self._misplaced += streamed.misplaced
        self._lost += streamed.lost
        kept = streamed.misplaced <= row.may_be_misplaced and not streamed.lost
        _say(_line(row.title, seconds, streamed, whole_after) + ("" if kept else "  BROKEN"))
        return kept

    def _demo(self, demo: Demo) -> bool:
        began = time.monotonic()
        seen = demo.show(self._cluster, self._rollout)
        _say(f"{demo.title:40}{time.monotonic() - began:>8.1f}  {seen}")
        return True

    def _removed(self, before: frozenset[str]) -> bool:
        began = time.monotonic()
        left = uninstall(self._cluster, self._rollout, before)
        _say(f"{'removal':40}{time.monotonic() - began:>8.1f}  left behind: {', '.join(left) or 'nothing'}")
        return not left


def _line(title: str, seconds: float, streamed: Streamed, whole_after: float) -> str:
    counts = f"{streamed.sent:>7}{streamed.misplaced:>11}{streamed.lost:>6}"
    return f"{title:40}{seconds:>8.1f}{counts}{whole_after:>21.1f}{streamed.longest_seconds:>16.1f}"


def _row_names(text: str) -> list[str]:
    names = text.split(",")
    allowed = [row.name for row in ROWS] + [REMOVAL]
    for name in names:
        if name not in allowed:
            raise argparse.ArgumentTypeError(f"{name!r} is no row; choose from {', '.join(allowed)}")
    return names


def _parser() -> argparse.ArgumentParser:
    every = ",".join([*(row.name for row in ROWS), REMOVAL])
    parser = argparse.ArgumentParser(prog="make e2e", description="Leadsman on real kubelets, under a stream of pods.")
    parser.add_argument("--rate", type=float, default=5.0, help="pods a second (default 5)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each row is run (default 1)")
    parser.add_argument("--folder", type=Path, help="where images and state go; a second run with it is quicker")
    parser.add_argument("--rows", type=_row_names, default=_row_names(every), help=f"which, of {every} (default all)")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
