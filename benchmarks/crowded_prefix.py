"""One node's prefix full of reward keys: what the extender's callers and the other nodes notice.

`python -m benchmarks.crowded_prefix`. A real etcd, the extender as a process, and 100 nodes that report every 5 s. A
stranger with the credentials of one node writes 320,000 rewards under its prefix while filter calls arrive; then the
extender is restarted, lists all that, and the stranger goes on overwriting. /metrics is scraped every 5 s.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import msgspec
import psutil
from msgspec import Struct

from leadsman.state import codec, keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.key_values import Put
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward
from leadsman.testbed.etcd import Etcd, free_ports

REWARD_KEYS = 320_000
NODES = [f"node-{number:03}" for number in range(100)]
CROWDED = "crowded"
PUSH_SECONDS = 5.0
CALL_EVERY_SECONDS = 0.05
SCRAPE_EVERY_SECONDS = 5.0
SETTLED_SECONDS = 40.0
KEYS_PER_WRITE = 128
POD = {"metadata": {"name": "p", "namespace": "d", "labels": {"app": "web", "delay_node-000": "50"}}, "spec": {}}
BODY = json.dumps({"Pod": POD, "NodeNames": NODES}).encode()


class Phase(Struct, frozen=True):
    """Filter calls of one phase, in milliseconds. least_fresh: of the 100 nodes, at any scrape; None: never scraped."""

    calls: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    least_fresh: int | None
    largest_rss_mib: float


class Extender:
    """The process, and what its callers saw since the last `phase`."""

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
        ]
        command = [sys.executable, "-m", "leadsman.cli.main", "extender", *flags, "--etcd", etcd_url]
        self._process = psutil.Popen([*command, "--log-level", "error"], stdout=subprocess.DEVNULL)
        self._begin()

    def phase(self) -> Phase:
        times = sorted(self._times) or [float("nan")]
        p50, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        least = min(self._fresh) if self._fresh else None
        made = Phase(len(self._times), self._failed, p50, p99, times[-1], least, self._largest_rss_mib)
        self._begin()
        return made

    def _begin(self) -> None:
        self._times: list[float] = []
        self._fresh: list[int] = []
        self._failed, self._largest_rss_mib = 0, 0.0

    async def call(self, session: aiohttp.ClientSession) -> None:
        """At a steady rate, whatever the earlier calls take."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._filter(session))
                await asyncio.sleep(CALL_EVERY_SECONDS)

    async def scrape(self, session: aiohttp.ClientSession) -> None:
        """Begins when each node has reported since the start: what was listed is of unknown age until then."""
        await asyncio.sleep(PUSH_SECONDS)
        while True:
            await asyncio.sleep(SCRAPE_EVERY_SECONDS)
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(self.ops_url + "/metrics") as answer:
                    text = await answer.text()
                fresh = [
                    line for line in text.splitlines() if line.startswith('leadsman_state_nodes{freshness="fresh"}')
                ]
                self._fresh.append(int(float(fresh[0].split()[1])) if fresh else 0)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(self.ops_url + "/readyz") as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.2)

    async def _filter(self, session: aiohttp.ClientSession) -> None:
        began = time.perf_counter()
        try:
            async with session.post(
                self.url + "/filter", data=BODY, headers={"Content-Type": "application/json"}
            ) as answer:
                await answer.read()
                self._failed += answer.status != 200
        except (aiohttp.ClientError, TimeoutError):
            self._failed += 1
        self._times.append(1000 * (time.perf_counter() - began))
        with suppress(psutil.Error):
            self._largest_rss_mib = max(self._largest_rss_mib, self._process.memory_info().rss / 2**20)

    async def stop(self) -> None:
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)


async def report(store: EtcdStore) -> None:
    """All nodes report, spread over the interval."""
    latency = Latency({"node-000": PeerLatency(30, 30, p50_ms=5.0, p95_ms=8.0, min_ms=4.0)})
    hardware = Hardware({"cpu_busy_ratio": 0.5})
    seq = 0
    while True:
        seq += 1
        for node in NODES:
            records: list[AnyRecord] = [
                Identity("pod", 1, "10.0.0.1"),
                latency,
                hardware,
                Heartbeat(1, seq, PUSH_SECONDS),
            ]
            await store.write([Put(keys.record_key(node, type(each)), codec.encode(each)) for each in records])
            await asyncio.sleep(PUSH_SECONDS / len(NODES))


async def crowd(store: EtcdStore, reward_keys: int, turn: float = 0.0) -> None:
    """Writes the rewards, as fast as etcd takes them."""
    value = codec.encode(Reward(turn, healthy=turn))
    names = [keys.reward_key(CROWDED, f"type-{number:06}") for number in range(reward_keys)]
    for start in range(0, reward_keys, KEYS_PER_WRITE):
        await store.write([Put(key, value) for key in names[start : start + KEYS_PER_WRITE]])


async def overwrite(store: EtcdStore, reward_keys: int) -> None:
    turn = 1.0
    while True:
        await crowd(store, reward_keys, turn)
        turn += 1


@asynccontextmanager
async def running(etcd_url: str, session: aiohttp.ClientSession) -> AsyncIterator[Extender]:
    """The extender, ready, under calls and scrapes."""
    extender = Extender(etcd_url)
    await asyncio.wait_for(extender.ready(session), 300)
    tasks = [asyncio.create_task(each) for each in (extender.call(session), extender.scrape(session))]
    try:
        yield extender
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await extender.stop()


async def measure(etcd_url: str, reward_keys: int = REWARD_KEYS) -> dict[str, Phase]:
    """Phase → what was seen in it."""
    phases: dict[str, Phase] = {}
    reports, stranger = (EtcdStore(EtcdAccess((etcd_url,), call_timeout_seconds=5.0)) for _ in range(2))
    reporting = asyncio.create_task(report(reports))
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        async with running(etcd_url, session) as extender:
            await asyncio.sleep(2 * PUSH_SECONDS)
            extender.phase()
            await asyncio.sleep(2 * PUSH_SECONDS)
            phases["before"] = extender.phase()
            await crowd(stranger, reward_keys)
            phases["while the keys are written"] = extender.phase()
            await asyncio.sleep(SETTLED_SECONDS)
            phases["afterwards"] = extender.phase()
        async with running(etcd_url, session) as extender:
            overwriting = asyncio.create_task(overwrite(stranger, reward_keys))
            await asyncio.sleep(2 * PUSH_SECONDS + SCRAPE_EVERY_SECONDS)
            phases["a restarted extender, first 15 s"] = extender.phase()
            await asyncio.sleep(SETTLED_SECONDS)
            phases["overwritten without end"] = extender.phase()
            overwriting.cancel()
            await asyncio.gather(overwriting, return_exceptions=True)
    failed = reporting.done() and reporting.exception()
    reporting.cancel()
    await asyncio.gather(reporting, return_exceptions=True)
    await asyncio.gather(reports.close(), stranger.close())
    if failed:
        raise failed
    return phases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=REWARD_KEYS, help="rewards under the one node (default 320000)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
        phases = asyncio.run(measure(etcd.client_url, args.keys))
    if args.json:
        print(msgspec.json.encode(phases).decode())
        return
    for name, seen in phases.items():
        print(
            f"{name:34} {seen.calls:6} calls {seen.failed:5} failed  p50 {seen.p50_ms:8.1f}  p99 {seen.p99_ms:8.1f}"
            f"  max {seen.max_ms:8.1f} ms  least fresh {seen.least_fresh}  RSS {seen.largest_rss_mib:.0f} MiB"
        )


if __name__ == "__main__":
    main()
