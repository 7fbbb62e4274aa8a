"""Measures what a cluster's agents cost etcd, and who follows it. `python -m benchmarks.etcd_load [--nodes 1000 2000]`

A real etcd of one member with the base's compaction; simulated agents in a process of their own
(`benchmarks.live_agents`: their own code but for packets, each with its connections, lease and watch); and a follower
of all nodes, as extenders and controllers have. For each size, over `--seconds` after the agents have settled: calls,
bytes and watches by etcd's own metrics, its memory and CPU; the follower's, and how long ago it got its last change.
All share the machine: the agents' CPU is printed too, and the calls that failed.
"""

import argparse
import asyncio
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.request import urlopen

import psutil
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from leadsman.runtime.text_table import align_columns
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower
from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from leadsman.testbed.etcd import Etcd

JOINS_PER_SECOND = 25
"""Joining costs an agent more than reporting, and all of them are one process here."""
COMPACTION = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=5m")
JOINED_WITHIN_SECONDS = 600.0


class Moment(Struct, frozen=True):
    """What was counted up to one moment.

    etcd: its metrics by name; those of calls by method, as "Txn".
    cpu_seconds, rss_mb: by process.
    """

    seconds: float
    etcd: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    rss_mb: Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    for nodes in chosen.nodes:
        found = measure(nodes, chosen.seconds)
        rows = rows or [tuple(found)]
        rows.append(tuple(found.values()))
    print("\n".join(align_columns([*zip(*rows, strict=True)])))


def measure(nodes: int, seconds: float) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data", flags=COMPACTION) as etcd:
        ours, theirs = multiprocessing.Pipe()
        follower = multiprocessing.get_context("spawn").Process(target=follow, args=(etcd.client_url, theirs))
        follower.start()
        program = [sys.executable, "-m", "benchmarks.live_agents", etcd.client_url]
        log = Path(folder) / "agents.log"
        with log.open("w") as out:
            agents = subprocess.Popen([*program, str(nodes), str(nodes / JOINS_PER_SECOND)], stdout=out)
        try:
            processes = {"etcd": etcd.pid, "agents": agents.pid, "follower": follower.pid or 0}
            wait_until_joined(etcd, nodes)
            time.sleep(2 * timing_for_nodes(ReportTiming(), nodes).push_interval_seconds)
            failed = failures(log)
            before = moment(etcd, processes)
            time.sleep(seconds)
            return row(nodes, before, moment(etcd, processes), asked(ours)) | {
                "etcd's version": ".".join(map(str, etcd.version)),
                "failed calls": str(failures(log) - failed),
            }
        finally:
            for process in (agents, follower):
                process.kill()
            agents.wait()
            follower.join()


def wait_until_joined(etcd: Etcd, nodes: int) -> None:
    deadline = time.monotonic() + JOINED_WITHIN_SECONDS
    while (there := etcd_metrics(etcd)["etcd_debugging_mvcc_watcher_total"]) < nodes + 1:
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {JOINED_WITHIN_SECONDS:g} s etcd has {there:.0f} watches of {nodes} agents")
        time.sleep(1.0)


def follow(etcd_url: str, asks: Connection) -> None:
    """Follows all nodes, in its own process, until it is killed.

    Each message is answered with the seconds since the last change was applied.
    """
    asyncio.run(_follow(etcd_url, asks))


async def _follow(etcd_url: str, asks: Connection) -> None:
    follower = Follower(EtcdStore(EtcdAccess((etcd_url,))))

    def answer() -> None:
        asks.recv()
        asks.send(follower.age_seconds(time.monotonic()))

    asyncio.get_running_loop().add_reader(asks.fileno(), answer)
    await follower.run()


def asked(follower: Connection) -> float:
    """Returns the seconds since the follower was last brought up to date."""
    follower.send(None)
    age: float = follower.recv()
    return age


def failures(log: Path) -> int:
    return sum(1 for _ in log.open())


def moment(etcd: Etcd, pids: Mapping[str, int]) -> Moment:
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    return Moment(
        time.monotonic(),
        etcd_metrics(etcd),
        {name: sum(process.cpu_times()[:2]) for name, process in processes.items()},
        {name: process.memory_info().rss / 1e6 for name, process in processes.items()},
    )


def etcd_metrics(etcd: Etcd) -> Mapping[str, float]:
    """Sums up etcd's metrics by name over their labels; calls that began, by method."""
    found: defaultdict[str, float] = defaultdict(float)
    text = urlopen(f"{etcd.metrics_url}/metrics", timeout=60).read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            is_call = sample.name == "grpc_server_started_total"
            found[sample.labels["grpc_method"] if is_call else sample.name] += sample.value
    return found


def row(nodes: int, before: Moment, after: Moment, age_seconds: float) -> dict[str, str]:
    seconds = after.seconds - before.seconds

    def rate(name: str) -> float:
        return (after.etcd[name] - before.etcd[name]) / seconds

    def cores(name: str) -> str:
        return f"{(after.cpu_seconds[name] - before.cpu_seconds[name]) / seconds:.2f}"

    return {
        "nodes": str(nodes),
        "transactions, reads among them": f"{rate('Txn'):.0f}",
        "leases renewed": f"{rate('LeaseKeepAlive'):.0f}",
        "kB/s to etcd": f"{rate('etcd_network_client_grpc_received_bytes_total') / 1e3:.0f}",
        "kB/s from etcd": f"{rate('etcd_network_client_grpc_sent_bytes_total') / 1e3:.0f}",
        "watches": f"{after.etcd['etcd_debugging_mvcc_watcher_total']:.0f}",
        "etcd, MB": f"{after.rss_mb['etcd']:.0f}",
        "its database, MB": f"{after.etcd['etcd_mvcc_db_total_size_in_bytes'] / 1e6:.1f}",
        "etcd, cores": cores("etcd"),
        "follower, MB": f"{after.rss_mb['follower']:.0f}",
        "follower, cores": cores("follower"),
        "follower, seconds behind": f"{age_seconds:.2f}",
        "agents here, cores": cores("agents"),
    }


if __name__ == "__main__":
    main()
