"""What one agent costs: RSS, CPU and threads after five minutes with 16 peers, etcd and a scrape every 15 s.

    python -m benchmarks.agent [--seconds 300] [--peers 16]

The peers are loopback addresses, which answer ICMP like any host. The agent is the real process, started as a pod
would be. The targets are 45 MB and 0.5 % of a core.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import psutil

from testbed.etcd import Etcd, free_ports

SCRAPE_EVERY_SECONDS = 15
RSS_TARGET_MB = 45
CPU_TARGET_RATIO = 0.005
WARM_UP_SECONDS = 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--peers", type=int, default=16)
    args = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Etcd(Path(folder) / "etcd") as etcd,
        running(Path(folder), args.peers, etcd.client_url) as (process, url),
    ):
        report(process, url, args.seconds)


@contextlib.contextmanager
def running(folder: Path, peers: int, etcd_url: str) -> Iterator[tuple[psutil.Process, str]]:
    static = folder / "peers"
    static.write_text("".join(f"peer-{n} 127.0.2.{n} zone-a\n" for n in range(1, peers + 1)))
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "leadsman.main", "agent", "--node-name", "bench", "--address", "127.0.0.1"]
    command += ["--peers", str(static), "--max-peers", str(peers), "--etcd", etcd_url, "--listen", listen]
    agent = subprocess.Popen(command, env=os.environ | {"MALLOC_ARENA_MAX": "1"})
    try:
        yield psutil.Process(agent.pid), f"http://{listen}"
    finally:
        agent.terminate()
        agent.wait()


def report(process: psutil.Process, url: str, seconds: int) -> None:
    time.sleep(WARM_UP_SECONDS)
    started, busy = time.monotonic(), busy_seconds(process)
    while (left := seconds - (time.monotonic() - started)) > 0:
        scrape = urlopen(f"{url}/metrics", timeout=5).read()
        print(f"\r{left:4.0f} s left  {megabytes(process):.1f} MB  ", end="", file=sys.stderr, flush=True)
        time.sleep(min(SCRAPE_EVERY_SECONDS, left))
    cpu = (busy_seconds(process) - busy) / (time.monotonic() - started)
    rss = megabytes(process)
    print(f"\nRSS      {rss:.1f} MB        target {RSS_TARGET_MB} MB: {verdict(rss <= RSS_TARGET_MB)}")
    print(f"CPU      {cpu:.2%} of a core  target {CPU_TARGET_RATIO:.1%}: {verdict(cpu <= CPU_TARGET_RATIO)}")
    print(f"threads  {process.num_threads()}\nscrape   {len(scrape)} bytes")


def busy_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 1e6)


def verdict(met: bool) -> str:
    return "met" if met else "NOT met"


if __name__ == "__main__":
    main()
