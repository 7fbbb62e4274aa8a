"""An extender with the API and the page on 127.0.0.1, a real etcd, and an invented cluster. For looking, and for tests.

    python -m tests.page_server 1000 [--hostile] [--port 8123]

It prints the URL in one line. The state is that of N nodes in zones, each probing up to 16 others, with reports that go
on; one node moved away by 35 ms a third of an hour ago, by an invented history; kube-scheduler's calls for some pods
were made over HTTP. --hostile: names that nobody may run as HTML, wherever a name is free text.
"""

import argparse
import asyncio
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from msgspec import Struct

from extender.api.app import create_api_app
from extender.api.history import DelayHistory
from extender.api.live import ApiSources, LiveState
from extender.api.view import DelayTable, delay_table
from extender.app import create_app
from extender.decider import Decider
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.record_queues import ProbeRequestQueue
from extender.worker_pool import WorkerPool
from leadsman.runtime.http_server import serve
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state import keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward, encode_record
from leadsman.state.snapshot import NodeState, Snapshot
from leadsman.state.store import LARGEST_TRANSACTION_OPS, Put
from leadsman.testbed.etcd import Etcd
from tests.testbed.background import running

PEERS = 16
_NEAR_STEPS = [step for step in range(-PEERS // 4, PEERS // 4 + 1) if step]
"""Half of the peers are near and mutual, as agents' near peers are."""
PUSH_SECONDS = 60.0
REPORT_EVERY_SECONDS = 30.0
SLOW_MS, SLOW_MINUTES_AGO = 35.0, 20
HISTORY_MINUTES = 59
PODS = 24
HOSTILE = "<img src=x onerror=document.title='hacked'>"
LOADED_WITHIN_SECONDS = 300.0
GRAFANA_URL = "https://grafana.example.com/d/leadsman-node?var-node={a}&peer={b}"


class PageUrl(Struct, frozen=True):
    """Where a started page server listens.

    page: of the page and the API.
    scheduler: of kube-scheduler's calls, and of the pages as text.
    open_streams: how many event streams it has now.
    """

    page: str
    scheduler: str
    slow_node: str
    nodes: Sequence[str]
    open_streams: Callable[[], int]


class InventedCluster:
    """Zones on a circle, nodes around them, heights of their own. `slow` is farther from everybody."""

    def __init__(self, nodes: int, rng: random.Random) -> None:
        self.names = [f"edge-{chr(97 + at * 8 // nodes)}-{at:04}" for at in range(nodes)]
        self.slow = self.names[nodes // 3]
        self._rng = rng
        zones = np.array([at * 8 // nodes for at in range(nodes)])
        angle = zones * np.pi / 4
        spread = np.random.default_rng(rng.randrange(1 << 30)).normal(0, 0.6, (2, nodes))
        self._points = np.array([18 * np.cos(angle), 11 * np.sin(angle)]) + spread
        self._heights = np.array([0.2 + rng.random() for _ in range(nodes)])
        self.zones = [f"zone-{chr(97 + zone)}" for zone in zones.tolist()]
        near = [[(at + step) % nodes for step in _NEAR_STEPS] for at in range(nodes)]
        far = [rng.sample(range(nodes), min(nodes, PEERS // 2)) for _ in range(nodes)]
        self._peers = [sorted({*near[at], *far[at]} - {at}) for at in range(nodes)]

    def latency(self, at: int, is_slow: bool = True) -> Latency:
        """What the node measures. is_slow: whether the slow node is slow already. One peer in 200 answers nothing."""
        peers = {}
        for peer in self._peers[at]:
            if is_slow and (at * 31 + peer) % 200 == 7:
                peers[self.names[peer]] = PeerLatency(30, 0)
                continue
            distance = float(np.hypot(*(self._points[:, at] - self._points[:, peer])))
            moved = SLOW_MS * is_slow * (self.slow in (self.names[at], self.names[peer]))
            heights = float(self._heights[at] + self._heights[peer])
            ms = round((distance + heights + moved) * self._rng.uniform(0.98, 1.02), 3)
            peers[self.names[peer]] = PeerLatency(30, 30, ms, round(ms * 1.2, 3), round(ms * 0.9, 3), 0.1, 1.0)
        return Latency(peers)

    def records(self, at: int) -> Iterator[tuple[str, AnyRecord]]:
        yield (
            "identity",
            Identity(f"pod-{at}", 1, f"10.0.{at // 250}.{at % 250 + 1}", self.zones[at], f"rack-{at // 16}"),
        )
        yield "latency", self.latency(at)
        ratios = {name: round(self._rng.random(), 3) for name in _RATIOS}
        yield "hardware", Hardware(ratios | {metric_names.TEMPERATURE: round(self._rng.uniform(35, 70), 1)})

    def heartbeat(self, at: int, seq: int) -> Put:
        record = Heartbeat(1, seq, PUSH_SECONDS)
        return Put(str(keys.NodeKey(self.names[at], "heartbeat")), encode_record(record))

    def all_records(self) -> Iterator[Put]:
        for at, name in enumerate(self.names):
            for kind, record in self.records(at):
                yield Put(str(keys.NodeKey(name, kind)), encode_record(record))
            if at % 3 == 0:
                for pod_type in ("web", "batch", "cache")[: 1 + at % 2]:
                    reward = Reward(time.time(), healthy=20.0, recent=10.0)
                    if at % 7 == 0:
                        reward = Reward(time.time(), healthy=14.0, failed=6.0)
                    yield Put(str(keys.NodeKey(name, keys.REWARDS_KIND, pod_type)), encode_record(reward))

    def be_hostile(self) -> None:
        """Zones are free text; names of nodes are not."""
        self.zones = [HOSTILE if zone == self.zones[0] else zone for zone in self.zones]


_RATIOS = (
    metric_names.CPU_PRESSURE,
    metric_names.MEMORY_PRESSURE,
    metric_names.CPU_BUSY,
    metric_names.MEMORY_AVAILABLE,
)


@asynccontextmanager
async def page_server(nodes: int, folder: Path, *, port: int = 0, hostile: bool = False) -> AsyncIterator[PageUrl]:
    """Runs until the block ends. folder: an empty one, for etcd."""
    cluster = InventedCluster(nodes, random.Random(nodes))
    if hostile:
        cluster.be_hostile()
    with Etcd(folder / "etcd") as etcd:
        store = EtcdStore(EtcdAccess((etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(store.close)
            await _write(store, cluster.all_records())
            await _write(store, (cluster.heartbeat(at, 1) for at in range(nodes)))
            yield await _start(stack, store, cluster, port, hostile)


async def _start(
    stack: AsyncExitStack, store: EtcdStore, cluster: InventedCluster, port: int, hostile: bool
) -> PageUrl:
    metrics, workers, journal = ExtenderMetrics(), WorkerPool(), Journal()
    stack.callback(workers.close)
    followed = await stack.enter_async_context(FollowedSources(store, SourceSettings()))
    probe_requests = ProbeRequestQueue(store)
    sources = ApiSources(
        followed.input_sources,
        journal,
        metrics,
        workers,
        time.time,
        "extender-0",
        request_probes=probe_requests.enqueue,
        grafana_url=GRAFANA_URL,
    )
    live = LiveState(sources)
    app = create_app(Decider(followed.input_sources, journal=journal, metrics=metrics, workers=workers))
    scheduler_port = await stack.enter_async_context(serve(app, "127.0.0.1", 0))
    loops = {**dict(followed.tasks()), "keep the page's history": live.run()}
    estimating = loops.pop("fit estimates")
    await stack.enter_async_context(running(*loops.values(), probe_requests.run()))
    async with asyncio.timeout(LOADED_WITHIN_SECONDS):
        await followed.state.loaded.wait()
        await stack.enter_async_context(running(_report(store, cluster)))
        while time.monotonic() >= min(node.fresh_until for node in followed.state.current.nodes.values()):  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.05)
    await followed.delays.estimator.run_once()
    await stack.enter_async_context(running(estimating))
    invent_history(live, cluster)
    url = f"http://127.0.0.1:{scheduler_port}"
    await _ask_for_pods(url, cluster, hostile)
    page_port = await stack.enter_async_context(serve(create_api_app(live), "127.0.0.1", port))
    return PageUrl(f"http://127.0.0.1:{page_port}", url, cluster.slow, cluster.names, lambda: live.streams)


async def _report(store: EtcdStore, cluster: InventedCluster) -> None:
    """Every node, again and again."""
    for seq in itertools.count(2):
        await _write(store, (cluster.heartbeat(at, seq) for at in range(len(cluster.names))))
        await asyncio.sleep(REPORT_EVERY_SECONDS)


async def _write(store: EtcdStore, puts: Iterator[Put]) -> None:
    while batch := list(itertools.islice(puts, LARGEST_TRANSACTION_OPS)):
        await store.write(batch)


def invent_history(live: LiveState, cluster: InventedCluster) -> None:
    """The minutes before now. Only the round trips are invented; shifts are found in them."""
    wall = time.time()
    live.history = DelayHistory(wall - 60 * HISTORY_MINUTES)
    tables = {is_slow: _table(cluster, is_slow) for is_slow in (False, True)}
    for minutes_ago in range(HISTORY_MINUTES, 0, -1):
        live.history.add(wall - 60 * minutes_ago, tables[minutes_ago < SLOW_MINUTES_AGO])


def _table(cluster: InventedCluster, is_slow: bool) -> DelayTable:
    now = time.monotonic()
    nodes = {
        name: NodeState(None, Heartbeat(1, 1, PUSH_SECONDS), cluster.latency(at, is_slow), None, now)
        for at, name in enumerate(cluster.names)
    }
    return delay_table(Snapshot(nodes), now)


async def _ask_for_pods(url: str, cluster: InventedCluster, hostile: bool) -> None:
    """As kube-scheduler does, for pods without a bound, with one that some nodes keep, with one that no other node
    does, and for one pod, shop/waits, that no node can take."""
    bounds = itertools.cycle(({}, {"delay_": "12"}, {"delay_": "30"}, {"delay_": "0.05"}))
    annotations = {"note": HOSTILE} if hostile else {}
    labels_by_pod = {"waits": {f"delay_{name}": "0.05" for name in cluster.names[:2]}}
    for number, bound in zip(range(PODS), bounds, strict=False):
        reference = cluster.names[number % len(cluster.names)]
        labels_by_pod[f"cart-{number}"] = {f"{key}{reference}": value for key, value in bound.items()}
    async with aiohttp.ClientSession(url) as session:
        for name, labels in labels_by_pod.items():
            meta = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "annotations": annotations}
            pod = {"metadata": meta | {"labels": labels | {"app": "web"}}}
            kept = await _call(session, "/filter", pod, cluster.names)
            if kept["NodeNames"]:
                await _call(session, "/prioritize", pod, kept["NodeNames"])


async def _call(session: aiohttp.ClientSession, path: str, pod: Mapping[str, object], nodes: Sequence[str]) -> Any:
    body = {"Pod": pod, "Nodes": None, "NodeNames": nodes}
    async with session.post(path, data=json.dumps(body)) as response:
        response.raise_for_status()
        return await response.json()


async def _main(nodes: int, port: int, hostile: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with page_server(nodes, Path(folder), port=port, hostile=hostile) as url:
            sys.stdout.write(f"{url.page} (kube-scheduler's calls: {url.scheduler}; the slow node: {url.slow_node})\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--hostile", action="store_true")
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(given.nodes, given.port, given.hostile))
