"""An extender on a real socket: any body, and any bytes at all, get an answer that is no 5xx, in time."""

import asyncio
import functools
import time
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

from msgspec import Struct

from extender.app import create_app
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from fuzz.oracle import Harness
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import serve
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.input_sources import InputSources
from leadsman.sources.policy_file import PolicyFile
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

ANSWER_SECONDS = 5.0
"""More than any deadline of a decision; less would fail on a busy machine."""

HEADER_SECONDS = 0.5
"""So that a run need not wait for requests that never end."""

_VERBS = ("filter", "prioritize", "preempt", "scheduler/filter", "explain?pod=")
_NODES = ("node-00000", "node-00001", "node-00002")


class _State(Struct):
    current: Snapshot


class _Server(NamedTuple):
    """serving: ends the server when it is collected."""

    loop: asyncio.AbstractEventLoop
    serving: AbstractAsyncContextManager[int]
    port: int


@functools.cache
def _server() -> _Server:
    """Runs until the process ends: only while `_ask` runs its loop."""
    loop = asyncio.new_event_loop()
    windows = {peer: PeerLatency(30, 30, p50_ms=5.0, p95_ms=6.0, min_ms=4.0) for peer in _NODES}
    node = NodeState(Identity("pod", 1, "10.0.0.1"), Heartbeat(1, 1, 60.0), Latency(windows), None, time.monotonic())
    state = _State(Snapshot(dict.fromkeys(_NODES, node), revision=7, cluster_id="c"))
    policy = PolicyFile(None)
    sources = InputSources(state, policy, DelaySources(DelaySettings(), state, policy), time.monotonic)
    app = create_app(sources, metrics=ExtenderMetrics(), workers=WorkerPool())
    serving = serve(app, "127.0.0.1", 0, ServerLimits(header_timeout_seconds=HEADER_SECONDS))
    return _Server(loop, serving, loop.run_until_complete(serving.__aenter__()))


def request_of(data: bytes) -> bytes:
    """The first byte chooses the verb whose body the others are, or that they are the whole request."""
    chosen, body = _chosen(data), data[1:]
    if chosen == len(_VERBS):
        return body
    head = f"POST /{_VERBS[chosen]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def _chosen(data: bytes) -> int:
    return data[0] % (len(_VERBS) + 1) if data else 0


def _parse(data: bytes) -> None:
    server = _server()
    answer = server.loop.run_until_complete(asyncio.wait_for(_ask(server.port, request_of(data)), ANSWER_SECONDS))
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:300]
    assert answer.startswith(b"HTTP/1.1 ") or _chosen(data) == len(_VERBS), answer[:300]


async def _ask(port: int, request: bytes) -> bytes:
    """Returns what the server answers until it closes; it may do so before it has read everything."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = bytearray()
    try:
        writer.write(request)
        writer.write_eof()
        while chunk := await reader.read(65_536):
            answer += chunk
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return bytes(answer)


HTTP = Harness(_parse)
