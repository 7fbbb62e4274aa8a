"""An extender on a real socket, the captured bodies of a real kube-scheduler, and a state with three measured nodes."""

import asyncio
import gzip
import io
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec import Struct

from extender.api.app import create_api_app
from extender.api.decisions import DecisionDetail
from extender.api.live import ApiSources, LiveState
from extender.app import create_app, create_ops_app
from extender.decider import Decider
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.cli.explain import decision_text
from leadsman.decision.policy import Policy
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import Health, serve
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.wiring import InputSources
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

CAPTURES = Path(__file__).parents[1] / "data" / "captures"

NO_PROBLEM = ProblemLog(logging.getLogger(__name__), "", "")


class Fixed(Struct):
    """A state, or a policy, that stands still."""

    current: Any
    problem: ProblemLog = NO_PROBLEM


class Extender(Struct):
    """A running extender and a client on one keep-alive connection."""

    session: aiohttp.ClientSession
    port: int
    metrics: ExtenderMetrics
    workers: WorkerPool
    api_url: str

    async def api(self, path: str) -> Any:
        """What its API for people has there."""
        async with self.session.get(f"{self.api_url}/api/v1{path}") as answer:
            found = await answer.json()
            assert answer.status == 200, found
            return found

    async def told(self, pod: str) -> str:
        """The newest decision on the pod, namespace/name, as `leadsman explain` prints it."""
        return decision_text(msgspec.convert(await self.api(f"/pods/{pod}"), DecisionDetail))

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        async with self.session.post(path, data=io.BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.read()

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def asked(self, path: str, body: bytes) -> Any:
        status, answer = await self.post(path, body)
        assert status == 200, answer
        return json.loads(answer)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def starts(
    state: Any = None, policy: Any = None, limits: Any = None, ops: bool = False, tls: Any = None, **settings: Any
) -> AsyncIterator[Extender]:
    """An extender that ends with the block. settings: what Decider, InputSources and create_app take."""
    metrics, workers = ExtenderMetrics(), settings.pop("workers", None) or WorkerPool()
    draining = settings.pop("draining", lambda: False)
    readiness = settings.pop("readiness", lambda: Health(True))
    source: Any = policy if policy is not None else Fixed(Policy())
    state = Fixed(state or Snapshot()) if state is None or isinstance(state, Snapshot) else state
    more = {name: settings.pop(name) for name in ("telemetry", "self_healing") if name in settings}
    delays, journal = DelaySources(DelaySettings(), state, source), Journal()
    inputs = InputSources(state, source, delays, time.monotonic, **more)
    of_decider = ("core", "request_probes", "observers", "reservations")
    chosen = {name: settings.pop(name) for name in of_decider if name in settings}
    app = create_app(Decider(inputs, journal=journal, metrics=metrics, workers=workers, **chosen), **settings)
    people = create_api_app(LiveState(ApiSources(inputs, journal, metrics, workers, time.time, "extender-0")))
    async with AsyncExitStack() as stack:
        stack.callback(workers.close)
        port = await stack.enter_async_context(serve(app, "127.0.0.1", 0, limits or ServerLimits(), tls))
        if ops:
            watched = create_ops_app(readiness, metrics, workers, draining)
            port = await stack.enter_async_context(serve(watched, "127.0.0.1", 0))
        api_port = await stack.enter_async_context(serve(people, "127.0.0.1", 0))
        connector = aiohttp.TCPConnector(limit=1)
        session = aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector)
        yield Extender(await stack.enter_async_context(session), port, metrics, workers, f"http://127.0.0.1:{api_port}")


def captured(name: str) -> bytes:
    """The body as kube-scheduler sent it."""
    plain = CAPTURES / f"{name}.json"
    return plain.read_bytes() if plain.exists() else gzip.decompress((CAPTURES / f"{name}.json.gz").read_bytes())


def labelled(body: bytes, labels: Mapping[str, str]) -> bytes:
    """A captured body whose pod carries these labels too; all other bytes stay."""
    added = json.dumps(labels, separators=(",", ":")).encode()[1:-1]
    assert body.count(b'"labels":{"app"') >= 1
    return body.replace(b'"labels":{"app"', b'"labels":{' + added + b',"app"', 1)


@pytest.fixture
def measured() -> Snapshot:
    """node-00000 reaches node-00001 in 5 ms and node-00002 in 80 ms, both ways; all fresh."""
    return network({"node-00001": 5.0, "node-00002": 80.0})


def network(from_first: Mapping[str, float], first: str = "node-00000") -> Snapshot:
    now = time.monotonic()
    ways = {first: dict(from_first)} | {node: {first: ms} for node, ms in from_first.items()}
    return Snapshot({node: _node(node, peers, now) for node, peers in ways.items()}, revision=7, cluster_id="c")


def _node(node: str, peers: Mapping[str, float], now: float) -> NodeState:
    windows = {peer: PeerLatency(30, 30, p50_ms=ms, p95_ms=ms, min_ms=ms) for peer, ms in peers.items()}
    return NodeState(Identity("pod", 1, "10.0.0.1"), Heartbeat(1, 1, 5.0), Latency(windows), None, now)


def args(nodes: Sequence[str], name: str = "p", **labels: str) -> bytes:
    """A filter body in the names form: args(["a", "b"], delay_a="5")."""
    pod = {"metadata": {"name": name, "namespace": "ns", "uid": "u", "labels": labels}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()


# Raw connections.

HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\n"


@asynccontextmanager
async def connected(port: int, **how: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A raw connection, which is cut at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **how)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def request(body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of what comes next."""
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        assert length is not None
        return int(head.split()[1]), await reader.readexactly(int(length[1]))
