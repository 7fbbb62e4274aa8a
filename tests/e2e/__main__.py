"""`make e2e`: the rows of the end-to-end table, on real kubelets. Exit status 1 when a row breaks its promise.

    python -m tests.e2e [--rate PODS_A_SECOND] [--rounds N] [--folder DIR] [--rows NAME,NAME] [--blind]
        [--deaths N] [--nodes 6] [--release DIR] [--soak MINUTES] [--seed N]

Skips with one line where this machine cannot: it says what would bring it.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT, Images
from tests.e2e.needs import Missing, find_binaries
from tests.e2e.released import Release
from tests.e2e.rollout import Rollout
from tests.e2e.rows import names
from tests.e2e.soak import Soak
from tests.e2e.table import COLUMNS, Table, say, total


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    known = names(bool(args.release))
    chosen = args.rows.split(",") if args.rows else known
    if unknown := set(chosen) - set(known):
        parser.error(f"no row: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that no node outlives this.
    try:
        binaries = find_binaries()
    except Missing as missing:
        say(f"make e2e: skipped: {missing}")
        return 0
    folder = args.folder or Path(tempfile.mkdtemp(prefix="leadsman-e2e-"))
    images = folder / "images"
    _build_images(binaries, images, args.release)
    release = Release(args.release, folder / "release") if args.release else None
    began = time.monotonic()
    with Cluster(binaries, folder / "cluster", images, args.nodes) as cluster:
        say(f"{len(cluster.nodes)} nodes Ready in {time.monotonic() - began:.0f} s\n")
        machine = f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.0f} at the start"
        ran = f'`make e2e ARGS="{" ".join(arguments)}"`, {datetime.now(UTC):%F}'
        say(f"{ran}, Kubernetes {cluster.kubernetes_version}, {machine}:\n\n{COLUMNS}")
        rollout = Rollout(cluster, folder / "operator", release, args.deaths)
        table = Table(cluster, rollout, args.rate, args.blind)
        if args.rows or not args.soak:
            table.run(frozenset(chosen), args.rounds)
        if args.soak:
            Soak(table, cluster, rollout).run(args.soak, args.seed)
        say(str(total(table.results)))
    return 0 if total(table.results).kept else 1


def _build_images(binaries: Path, folder: Path, release: Path | None) -> None:
    began = time.monotonic()
    overlay = [str(binaries / "kubectl"), "kustomize", str(ROOT / "daemonset/overlay")]
    images = Images(folder, subprocess.run(overlay, capture_output=True, text=True, check=True).stdout)
    images.build(release)
    version = subprocess.run(
        [str(binaries / "kube-scheduler"), "--version"], capture_output=True, text=True, check=True
    )
    images.build_scheduler(binaries / "kube-scheduler", version.stdout.split()[-1])
    say(f"images built in {time.monotonic() - began:.0f} s; they are in {folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make e2e", description="Leadsman on real kubelets, under a stream of pods.")
    parser.add_argument("--rate", type=float, default=5.0, help="pods a second (default 5)")
    parser.add_argument("--blind", action="store_true", help="without agents: shows that the stream sees it")
    parser.add_argument("--rounds", type=int, default=1, help="how often each row is run (default 1)")
    parser.add_argument("--deaths", type=int, default=3, help="nodes that die in a row about that (default 3)")
    parser.add_argument("--nodes", type=int, choices=(4, 6), default=4, help="6: two may die at once (default 4)")
    parser.add_argument("--folder", type=Path, help="where images and state go; a second run with it is quicker")
    parser.add_argument("--rows", help=f"which, of {','.join(names(released=False))} (default all)")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="random rows one after another, under one stream")
    parser.add_argument("--seed", type=int, default=1, help="of the soak's order (default 1)")
    parser.add_argument("--release", type=Path, help="a release's folder, installed by its README, not this checkout")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
