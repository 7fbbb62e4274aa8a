"""Measures what a cluster's agents cost etcd. `python -m benchmarks.etcd_load [--nodes 250 1000] [--join-seconds 5]`

A real etcd of one member with the base's compaction, alone on the first core. On the second, in processes of their own:
the agents (`benchmarks.live_agents`: their own code but for packets and hardware, each with its connections, lease and
watch), and a follower of all nodes, as extenders and controllers have. Three phases for each size: all agents start
within a few seconds; they have settled, for `--seconds`; etcd is killed, stays away for five seconds, and all settle
again. Calls, bytes and expired leases are by etcd's own metrics, the time of a call is the agents'.
"""

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.live_agents import AgentsSeen, run_agents
from leadsman.runtime.text_table import align_columns
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.follower import Follower
from leadsman.state.snapshot import Freshness
from leadsman.testbed.etcd import Etcd

COMPACTION = ("--auto-compaction-mode=periodic", "--auto-compaction-retention=2m")
QUIET_SECONDS = 20.0
"""Agents have settled when for so long no call failed, all nodes were fresh and all agents knew the cluster's size."""
AWAY_SECONDS = 5.0
CALLS = ("Txn", "Range", "LeaseKeepAlive", "LeaseGrant", "LeaseRevoke", "Watch")
"""Methods of etcd's API that agents call, by its own names."""


class Moment(Struct, frozen=True):
    """What was counted up to one moment.

    etcd: its metrics by name; those of calls by method, as "Txn".
    cpu_seconds, rss_mb: by process.
    fresh: nodes whose data the follower may use.
    """

    seconds: float
    etcd: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    rss_mb: Mapping[str, float]
    agents: AgentsSeen
    fresh: int

    @property
    def calls(self) -> float:
        return sum(self.etcd.get(method, 0.0) for method in CALLS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[250, 1000])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--join-seconds", type=float, default=5.0)
    parser.add_argument("--give-up-seconds", type=float, default=600.0, help="without settling")
    chosen = parser.parse_args()
    columns = []
    for nodes in chosen.nodes:
        for column in measure(nodes, chosen):
            print(column, flush=True)
            columns.append(column)
    names = list(columns[0])
    print("\n".join(align_columns([[name, *(column[name] for column in columns)] for name in names])))


def measure(nodes: int, chosen: argparse.Namespace) -> Iterator[dict[str, str]]:
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        etcd = Etcd(Path(folder) / "data", flags=COMPACTION)
        with on_core(cores[0]):
            etcd.start()
        with (
            on_core(cores[-1]),
            process(follow, etcd.client_url) as follower,
            process(run_agents, etcd.client_url, nodes, chosen.join_seconds) as agents,
        ):
            watched = Watched(etcd, nodes, {"agents": agents, "follower": follower}, chosen.give_up_seconds)
            yield watched.until_settled("joining")
            yield watched.during("settled", chosen.seconds)
            etcd.kill()
            time.sleep(AWAY_SECONDS)
            with on_core(cores[0]):
                etcd.start()
            yield watched.until_settled("etcd was away")
        etcd.stop()


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Has what is started here run on this core alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Asked(Struct, frozen=True):
    """A process that answers messages."""

    pid: int
    pipe: Connection


@contextmanager
def process(run: Callable[..., None], *arguments: object) -> Iterator[Asked]:
    ours, theirs = multiprocessing.Pipe()
    started = multiprocessing.get_context("spawn").Process(target=run, args=(*arguments, theirs))
    started.start()
    try:
        yield Asked(started.pid or 0, ours)
    finally:
        started.kill()
        started.join()


class Watched:
    """Watches agents and etcd, moment by moment."""

    def __init__(self, etcd: Etcd, nodes: int, others: Mapping[str, Asked], give_up_seconds: float) -> None:
        self._etcd, self._nodes, self._others, self._give_up_seconds = etcd, nodes, others, give_up_seconds

    def until_settled(self, phase: str) -> dict[str, str]:
        """Watches until the agents have settled. The time is that before the quiet that shows it."""
        moments, quiet_since = [self._moment()], None
        while moments[-1].seconds - moments[0].seconds < self._give_up_seconds:
            time.sleep(1.0)
            moments.append(self._moment())
            now = moments[-1]
            is_quiet = not now.agents.failures and now.fresh >= self._nodes and now.agents.sized >= self._nodes
            quiet_since = (quiet_since or now.seconds) if is_quiet else None
            if quiet_since and now.seconds - quiet_since >= QUIET_SECONDS:
                return self._column(phase, moments, f"{quiet_since - moments[0].seconds:.0f}")
        return self._column(phase, moments, "never")

    def during(self, phase: str, seconds: float) -> dict[str, str]:
        moments = [self._moment()]
        while moments[-1].seconds - moments[0].seconds < seconds:
            time.sleep(1.0)
            moments.append(self._moment())
        return self._column(phase, moments, "")

    def _moment(self) -> Moment:
        processes = {name: psutil.Process(asked.pid) for name, asked in self._others.items()}
        processes["etcd"] = psutil.Process(self._etcd.pid)
        answers = {name: _ask(asked.pipe) for name, asked in self._others.items()}
        return Moment(
            time.monotonic(),
            etcd_metrics(self._etcd),
            {name: sum(process.cpu_times()[:2]) for name, process in processes.items()},
            {name: process.memory_info().rss / 1e6 for name, process in processes.items()},
            answers["agents"],
            answers["follower"],
        )

    def _column(self, phase: str, moments: list[Moment], settled_after: str) -> dict[str, str]:
        first, last, seen = moments[0], moments[-1], [moment.agents for moment in moments[1:]]
        seconds = last.seconds - first.seconds
        failures: defaultdict[str, int] = defaultdict(int)
        for each in seen:
            for cause, count in each.failures.items():
                failures[cause] += count
        pairs = list(pairwise(moments))

        def rate(name: str) -> float:
            return (last.etcd.get(name, 0.0) - first.etcd.get(name, 0.0)) / seconds

        def busiest(what: Callable[[Moment], float]) -> float:
            return max((what(two) - what(one)) / (two.seconds - one.seconds) for one, two in pairs)

        return {
            "nodes": str(self._nodes),
            "phase": phase,
            "settled after, s": settled_after,
            "calls a second": f"{(last.calls - first.calls) / seconds:.0f}",
            "most in a second": f"{busiest(lambda moment: moment.calls):.0f}",
            **{f"- {method}": f"{rate(method):.1f}" for method in CALLS},
            "call, median, ms": f"{1000 * max(each.median_seconds for each in seen):.0f}",
            "call, p99, ms": f"{1000 * max(each.p99_seconds for each in seen):.0f}",
            "calls that failed": ", ".join(f"{cause} {count}" for cause, count in failures.items()) or "0",
            "kB/s to etcd": f"{rate('etcd_network_client_grpc_received_bytes_total') / 1e3:.0f}",
            "kB/s from etcd": f"{rate('etcd_network_client_grpc_sent_bytes_total') / 1e3:.0f}",
            "watches": f"{last.etcd['etcd_debugging_mvcc_watcher_total']:.0f}",
            "etcd, cores": f"{(last.cpu_seconds['etcd'] - first.cpu_seconds['etcd']) / seconds:.2f}",
            "etcd, busiest second": f"{busiest(lambda moment: moment.cpu_seconds['etcd']):.2f}",
            "etcd, MB": f"{max(moment.rss_mb['etcd'] for moment in moments):.0f}",
            "its database, MB": f"{last.etcd['etcd_mvcc_db_total_size_in_bytes'] / 1e6:.1f}",
            "leases that expired": f"{rate('etcd_debugging_server_lease_expired_total') * seconds:.0f}",
            "agents that claim their node, at least": f"{min(each.claimed for each in seen)}",
            "agents that ended": f"{last.agents.ended}",
            "fresh nodes, at least": f"{min(moment.fresh for moment in moments)}",
            "agents here, cores": f"{(last.cpu_seconds['agents'] - first.cpu_seconds['agents']) / seconds:.2f}",
            "agents here, longest lag, s": f"{max(each.lag_seconds for each in seen):.2f}",
            "follower, cores": f"{(last.cpu_seconds['follower'] - first.cpu_seconds['follower']) / seconds:.2f}",
            "follower, MB": f"{last.rss_mb['follower']:.0f}",
            "load of the machine": f"{os.getloadavg()[0]:.1f}",
        }


def _ask(pipe: Connection) -> Any:
    pipe.send(None)
    return pipe.recv()


def follow(etcd_url: str, asks: Connection) -> None:
    """Follows all nodes, in its own process, until it is killed. Each message is answered with the number of fresh
    ones."""
    asyncio.run(_follow(etcd_url, asks))


async def _follow(etcd_url: str, asks: Connection) -> None:
    follower = Follower(EtcdStore(EtcdAccess((etcd_url,))))

    def answer() -> None:
        asks.recv()
        now = time.monotonic()
        asks.send(sum(node.freshness(now) is Freshness.FRESH for node in follower.current.nodes.values()))

    asyncio.get_running_loop().add_reader(asks.fileno(), answer)
    await follower.run()


def etcd_metrics(etcd: Etcd) -> Mapping[str, float]:
    """Sums up etcd's metrics by name over their labels; calls that began, by method."""
    found: defaultdict[str, float] = defaultdict(float)
    text = urlopen(f"{etcd.metrics_url}/metrics", timeout=60).read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            is_call = sample.name == "grpc_server_started_total"
            found[sample.labels["grpc_method"] if is_call else sample.name] += sample.value
    return dict(found)


if __name__ == "__main__":
    main()
