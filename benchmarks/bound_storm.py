"""Pods with 32 delay bounds each, sixteen at once: what another namespace's bounded pod notices.

`python -m benchmarks.bound_storm`. A real etcd, the extender as a process, and 5,000 nodes of which 200 report a
second, each with 33 windows. First such a pod and one with a single bound are asked about in turn. Then the sixteen are
asked about, each with 32 nodes of its own and again as soon as it is answered, while the pod with one bound goes on in
its own namespace. Every pod is filtered over all 5,000 nodes, and scored on those that are left.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import psutil
from msgspec import Struct

from leadsman.kube.names import ESTIMATE_ANNOTATION
from leadsman.state import codec, keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.key_values import Put
from leadsman.state.records import AnyRecord, Heartbeat, Identity, Latency, PeerLatency
from leadsman.testbed.etcd import Etcd, free_ports

NODES = 5_000
STORM_PODS = 16
BOUNDS = 32
PEERS = 16
PUSH_SECONDS = 25.0
REPORTS_AT_ONCE, REPORT_EVERY_SECONDS = 20, 0.1
WINDOWS_MOVED = 0.25
"""Of the reports, that bring other windows; the rest stay within their dead band."""

STORM_SECONDS = 20.0
CALM_CALLS = 40
OTHER_EVERY_SECONDS = 0.1
DEADLINE_WORDS = "exceeded its deadline"


class Calls(Struct, frozen=True):
    """Filter calls, in milliseconds. overloaded: refused because a decision took too long. invalid: answers that do not
    name each candidate once."""

    calls: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    overloaded: int
    invalid: int


class Result(Struct, frozen=True):
    """first_ms: the first call of a pod with 32 bounds in the extender's life. storm_cpu_ms: of the extender's CPU, for
    each filter call of the storm, with all else that it did meanwhile."""

    first_ms: float
    heavy_alone: Calls
    light_alone: Calls
    heavy_in_storm: Calls
    light_in_storm: Calls
    storm_cpu_ms: float
    least_overdue: float
    largest_rss_mib: float


class Cluster:
    """The nodes and their reports."""

    def __init__(self, store: EtcdStore, nodes: int) -> None:
        self._store, self._rng, self._seq = store, random.Random(1), 0
        self.names = [f"node-{number:04}" for number in range(nodes)]
        self._references = self.names[: STORM_PODS * BOUNDS]

    async def report_all(self) -> None:
        for start in range(0, len(self.names), 64):
            await self._report(self.names[start : start + 64], windows=self._seq == 0)
        self._seq += 1

    async def report_in_turn(self) -> None:
        turn = 0
        while True:
            some = [self.names[(turn + step) % len(self.names)] for step in range(REPORTS_AT_ONCE)]
            turn += REPORTS_AT_ONCE
            self._seq += turn % len(self.names) < REPORTS_AT_ONCE
            await self._report(some, windows=self._rng.random() < WINDOWS_MOVED)
            await asyncio.sleep(REPORT_EVERY_SECONDS)

    async def _report(self, some: Sequence[str], windows: bool) -> None:
        records: list[tuple[str, AnyRecord]] = [(node, Heartbeat(1, self._seq + 1, PUSH_SECONDS)) for node in some]
        if windows:
            records += [(node, self._latency(node)) for node in some]
        if self._seq == 0:
            records += [(node, Identity("pod", 1, "10.0.0.1")) for node in some]
        await self._store.write([Put(keys.record_key(node, type(each)), codec.encode(each)) for node, each in records])

    def _latency(self, node: str) -> Latency:
        peers = [*self._rng.sample(self.names, PEERS), *self._rng.sample(self._references, PEERS), self.names[-1]]
        return Latency({peer: self._window() for peer in peers if peer != node})

    def _window(self) -> PeerLatency:
        ms = round(self._rng.uniform(1, 50), 3)
        return PeerLatency(30, 30, p50_ms=ms, p95_ms=2 * ms, min_ms=ms / 2)


class Caller:
    """Asks about one pod and keeps what came back."""

    def __init__(self, session: aiohttp.ClientSession, url: str, nodes: Sequence[str]) -> None:
        self._session, self._url, self._nodes, self._names = session, url, nodes, frozenset(nodes)
        self.times_ms: list[float] = []
        self.overloaded = self.invalid = 0

    async def ask(self, namespace: str, name: str, references: Sequence[str], estimate: str = "upper-bound") -> None:
        labels = {f"delay_{reference}": "40" for reference in references}
        about = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
        pod = {"metadata": about | {"annotations": {ESTIMATE_ANNOTATION: estimate}}, "spec": {}}
        kept, refused = await self._post("/filter", pod, self._nodes)
        if kept:
            await self._post("/prioritize", pod, kept)
        self.overloaded += any(DEADLINE_WORDS in reason for reason in refused.values())
        self.invalid += len(kept) + len(refused) != len(self._nodes) or self._names != {*kept, *refused}

    async def _post(self, path: str, pod: object, nodes: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        body = json.dumps({"Pod": pod, "NodeNames": nodes}).encode()
        began = time.perf_counter()
        async with self._session.post(self._url + path, data=body, headers=_JSON) as answer:
            data = await answer.read()
        if path != "/filter":
            return [], {}
        self.times_ms.append(1000 * (time.perf_counter() - began))
        filtered = msgspec.json.decode(data)
        return filtered["NodeNames"] or [], filtered["FailedAndUnresolvableNodes"] or {}

    def calls(self) -> Calls:
        """Those since the last time."""
        times = sorted(self.times_ms) or [float("nan")]
        p50, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        made = Calls(len(self.times_ms), p50, p99, times[-1], self.overloaded, self.invalid)
        self.times_ms, self.overloaded, self.invalid = [], 0, 0
        return made


_JSON = {"Content-Type": "application/json"}


class Extender:
    """The process, and the extremes of what it shows."""

    def __init__(self, etcd_url: str) -> None:
        listen, ops = free_ports(2)
        self.url, self.ops_url = f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{ops}"
        flags = [
            "--plain-http",
            "--drain-seconds=0",
            "--listen",
            f"127.0.0.1:{listen}",
            "--ops-listen",
            f"127.0.0.1:{ops}",
            "--names-only",
        ]
        command = [sys.executable, "-m", "leadsman.cli.main", "extender", *flags, "--etcd", etcd_url]
        self._process = psutil.Popen(
            [*command, "--log-level", "error"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.least_overdue = self.largest_rss_mib = 0.0

    @property
    def cpu_seconds(self) -> float:
        spent = self._process.cpu_times()
        return float(spent.user + spent.system)

    async def metric(self, session: aiohttp.ClientSession, series: str) -> float:
        with suppress(aiohttp.ClientError, TimeoutError):
            async with session.get(self.ops_url + "/metrics") as answer:
                lines = [line for line in (await answer.text()).splitlines() if line.startswith(f"{series} ")]
            return float(lines[0].split()[1]) if lines else 0.0
        return 0.0

    async def wait_for_nodes(self, freshness: str, nodes: int, session: aiohttp.ClientSession) -> None:
        while await self.metric(session, f'leadsman_state_nodes{{freshness="{freshness}"}}') < nodes:  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    async def observe(self, session: aiohttp.ClientSession) -> None:
        while True:
            overdue = await self.metric(session, "leadsman_extender_overdue_workers")
            self.least_overdue = min(self.least_overdue, overdue)
            self.largest_rss_mib = max(self.largest_rss_mib, self._process.memory_info().rss / 2**20)
            await asyncio.sleep(0.5)

    async def stop(self) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)


@asynccontextmanager
async def running(etcd_url: str, cluster: Cluster, session: aiohttp.ClientSession) -> AsyncIterator[Extender]:
    """The extender once all nodes are fresh, while they go on reporting."""
    extender = Extender(etcd_url)
    tasks = []
    try:
        async with asyncio.timeout(120):
            await extender.wait_for_nodes("provisional", len(cluster.names), session)
            await cluster.report_all()
            await extender.wait_for_nodes("fresh", len(cluster.names), session)
        tasks = [asyncio.create_task(each) for each in (cluster.report_in_turn(), extender.observe(session))]
        yield extender
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await extender.stop()


async def measure(etcd_url: str, nodes: int = NODES, storm_seconds: float = STORM_SECONDS) -> Result:
    store = EtcdStore(EtcdAccess((etcd_url,), call_timeout_seconds=5.0))
    cluster = Cluster(store, nodes)
    await cluster.report_all()
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session,
        running(etcd_url, cluster, session) as extender,
    ):
        heavy, light = (Caller(session, extender.url, cluster.names) for _ in range(2))
        references = [cluster.names[start : start + BOUNDS] for start in range(0, STORM_PODS * BOUNDS, BOUNDS)]
        await heavy.ask("storm", "heavy-0", references[0], "accept")
        first = heavy.calls()
        for number in range(CALM_CALLS):
            await heavy.ask("storm", "heavy", references[number % STORM_PODS], "accept")
            await light.ask("other", "light", cluster.names[-1:])
        alone = heavy.calls(), light.calls()
        cpu_seconds = extender.cpu_seconds
        storm = [asyncio.create_task(_ask_again(heavy, n, each)) for n, each in enumerate(references)]
        await _ask_steadily(light, cluster.names[-1:], storm_seconds)
        for task in storm:
            task.cancel()
        await asyncio.gather(*storm, return_exceptions=True)
        in_storm = heavy.calls(), light.calls()
        cpu_ms = 1000 * (extender.cpu_seconds - cpu_seconds) / (in_storm[0].calls + in_storm[1].calls)
        extremes = extender.least_overdue, extender.largest_rss_mib
    await store.close()
    return Result(first.max_ms, *alone, *in_storm, cpu_ms, *extremes)


async def _ask_again(caller: Caller, number: int, references: Sequence[str]) -> None:
    """Every other pod accepts what is not known, so that nearly all nodes are left and all bounds are evaluated."""
    while True:
        await caller.ask("storm", f"heavy-{number}", references, "accept" if number % 2 else "upper-bound")


async def _ask_steadily(caller: Caller, references: Sequence[str], seconds: float) -> None:
    """At a steady rate, whatever the earlier calls take."""
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds / OTHER_EVERY_SECONDS)):
            group.create_task(caller.ask("other", f"light-{number}", references))
            await asyncio.sleep(OTHER_EVERY_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES, help=f"default {NODES}")
    parser.add_argument("--seconds", type=float, default=STORM_SECONDS, help="of the storm (default 20)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
        result = asyncio.run(measure(etcd.client_url, args.nodes, args.seconds))
    if args.json:
        print(msgspec.json.encode(result).decode())
        return
    print(f"filter over {args.nodes} nodes, ms{'':18} calls     p50     p99     max  overloaded  invalid")
    rows = {
        "32 bounds, alone": result.heavy_alone,
        "1 bound, alone": result.light_alone,
        f"32 bounds, {STORM_PODS} at once": result.heavy_in_storm,
        "1 bound, other namespace, then": result.light_in_storm,
    }
    for name, seen in rows.items():
        times = f"{seen.p50_ms:7.1f} {seen.p99_ms:7.1f} {seen.max_ms:7.1f}"
        print(f"{name:36} {seen.calls:6} {times} {seen.overloaded:11} {seen.invalid:8}")
    print(f"the first pod with 32 bounds after a start: {result.first_ms:.0f} ms")
    print(f"CPU of the extender in the storm: {result.storm_cpu_ms:.1f} ms a filter call")
    print(f"overdue workers, least: {result.least_overdue:g}; RSS, largest: {result.largest_rss_mib:.0f} MiB")


if __name__ == "__main__":
    main()
