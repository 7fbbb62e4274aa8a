"""The API on real sockets, over the invented cluster of the page server with its state in memory."""

import random
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import aiohttp
import pytest
from msgspec import Struct
from msgspec.structs import replace

from extender.api.app import create_api_app
from extender.api.live import ApiSources, LiveState
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.runtime.http_server import serve
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.delay.fitted_estimates import FittedEstimates, fit_estimates, gather_measurements
from leadsman.sources.wiring import InputSources
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot
from tests.extender.conftest import Fixed
from tests.page_server import PUSH_SECONDS, InventedCluster

NOW = 1_000.0
"""Monotonic seconds at which these clusters stand still."""


def invented_snapshot(cluster: InventedCluster, is_slow: bool = True) -> Snapshot:
    """All nodes fresh at NOW."""
    nodes = {}
    for at, name in enumerate(cluster.names):
        identity, beat = Identity("pod", 1, "10.0.0.1", cluster.zones[at]), Heartbeat(1, 1, PUSH_SECONDS)
        nodes[name] = NodeState(identity, beat, cluster.latency(at, is_slow), None, NOW)
    return Snapshot(nodes, revision=7, cluster_id="c")


@cache
def _invented(nodes: int) -> tuple[InventedCluster, Snapshot, FittedEstimates]:
    """Once for all tests: a fit takes seconds."""
    cluster = InventedCluster(nodes, random.Random(nodes))
    snapshot = invented_snapshot(cluster)
    return cluster, snapshot, fit_estimates(gather_measurements(snapshot, NOW, Policy().delay.statistic), NOW)


class Api(Struct):
    """A running API and a client without a connection limit."""

    session: aiohttp.ClientSession
    live: LiveState
    cluster: InventedCluster
    measured: list[tuple[str, str]]

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(f"/api/v1{path}", headers=headers) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: Mapping[str, Any], **headers: str) -> tuple[int, Any]:
        async with self.session.post(f"/api/v1{path}", json=body, headers=headers) as response:
            return response.status, await response.json()

    def decide(self, name: str, labels: Mapping[str, str] = {}, seconds_ago: float = 0.0) -> None:
        """As kube-scheduler's two calls do."""
        inputs = self.live.sources.inputs.current_inputs()
        inputs = replace(inputs, now=inputs.now - seconds_ago)
        pod, nodes = PodInfo("shop", name, f"uid-{name}", labels), tuple(self.cluster.names)
        filtered = filter_nodes(pod, nodes, inputs)
        self.live.sources.journal.record_filter(pod, nodes, filtered, inputs)
        if filtered.kept:
            scored = score_nodes(pod, filtered.kept, inputs)
            self.live.sources.journal.record_prioritize(pod, filtered.kept, scored, inputs)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with started() as one:
        yield one


def with_lost(snapshot: Snapshot, lost: Collection[tuple[str, str]]) -> Snapshot:
    """The same, with no probe answered from the first to the second of these pairs, and of no others."""

    def window(pair: tuple[str, str], was: PeerLatency) -> PeerLatency:
        return PeerLatency(30, 0) if pair in lost else was if was.received else PeerLatency(30, 30, 9.0, 9.9, 8.9, 0.1)

    nodes = dict(snapshot.nodes)
    for name, state in snapshot.nodes.items():
        if state.latency:
            windows = {peer: window((name, peer), was) for peer, was in state.latency.peers.items()}
            nodes[name] = replace(state, latency=Latency(windows))
    return replace(snapshot, nodes=nodes)


@asynccontextmanager
async def started(nodes: int = 10, lost: Collection[tuple[str, str]] | None = None) -> AsyncIterator[Api]:
    """lost: None: those of the invented cluster, one in 200."""
    cluster, snapshot, fitted = _invented(nodes)
    if lost is not None:
        snapshot = with_lost(snapshot, lost)
    workers, measured = WorkerPool(), list[tuple[str, str]]()
    state: Any = Fixed(snapshot)
    policy: Any = Fixed(Policy())
    delays = DelaySources(DelaySettings(), state, policy)
    delays.estimator.current = fitted
    inputs, journal, metrics = InputSources(state, policy, delays, lambda: NOW), Journal(), ExtenderMetrics()
    sources = ApiSources(inputs, journal, metrics, workers, time.time, "extender-0", request_probes=measured.extend)
    live = LiveState(sources)
    app = create_api_app(live)
    try:
        async with (
            serve(app, "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=aiohttp.TCPConnector(limit=0)) as session,
        ):
            yield Api(session, live, cluster, measured)
    finally:
        workers.close()
