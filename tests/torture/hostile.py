"""Rows of hostile input: to any port, from the API server's users, under a node's own prefix in etcd."""

import asyncio
import contextlib
import gzip
import json
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from leadsman.cli.demo import scheduler_request
from leadsman.state import keys
from leadsman.testbed.api_objects import ObjectPath
from tests.torture import shape
from tests.torture.cluster import POLICIES, Cluster, as_base64
from tests.torture.rows import AGENT_SECONDS, Stage, row

NO_END_SECONDS = 30.0
MANY_LABELS = {f"label-{number}": "x" * 20 for number in range(40_000)}

CLIENT_HELLO_BEGUN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""A TLS record of 512 bytes that begins a ClientHello; the rest never comes."""

HEADERS_BEGUN = b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "


# Connections.


@contextlib.contextmanager
def strangers(url: str, count: int, first_bytes: bytes = b"") -> Iterator[None]:
    """Connections that send `first_bytes` and then nothing."""
    address = urlsplit(url)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
            with contextlib.suppress(OSError):
                sock.sendall(first_bytes)
        yield


@row(14, shape.EXTENDER_A, "agent-edge-1", *shape.CONTROLLERS)
async def silent_connections(stage: Stage) -> AsyncIterator[None]:
    """1,500 silent connections to an extender, 1,010 to an agent, 500 to a controller."""
    processes = stage.cluster.processes
    with (
        strangers(processes[shape.EXTENDER_A].url, 1500),
        strangers(processes["agent-edge-1"].ops_url, 1010),
        strangers(processes[shape.CONTROLLERS[0]].ops_url, 500),
    ):
        yield


@row(14, shape.EXTENDER_B)
async def half_handshakes(stage: Stage) -> AsyncIterator[None]:
    """600 TLS handshakes that stop within the first record."""
    with strangers(stage.cluster.processes[shape.EXTENDER_B].url, 600, CLIENT_HELLO_BEGUN):
        yield


@row(14, shape.EXTENDER_A, shape.EXTENDER_B, *shape.CONTROLLERS)
async def slow_headers(stage: Stage) -> AsyncIterator[None]:
    """300 clients on each operator's port that never finish their headers."""
    with contextlib.ExitStack() as stack:
        for name in (*shape.EXTENDERS, shape.CONTROLLERS[0]):
            stack.enter_context(strangers(stage.cluster.processes[name].ops_url, 300, HEADERS_BEGUN))
        yield


@row(1, shape.EXTENDER_A)
async def tls_refusals(stage: Stage) -> AsyncIterator[None]:
    """100 clients without a certificate and 100 that speak no TLS."""
    url = urlsplit(stage.cluster.processes[shape.EXTENDER_A].url)
    stranger = ssl.create_default_context(cafile=stage.cluster.certs / "ca.crt")
    for tls in (stranger, None):
        asked = (_raw(stage, url, tls, b"GET /filter HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(100))
        await asyncio.gather(*asked)
    yield


async def _raw(stage: Stage, url: Any, tls: ssl.SSLContext | None, request: bytes) -> None:
    """Sends bytes and waits for the end of the connection."""
    began, status = time.monotonic(), 0
    try:
        async with asyncio.timeout(NO_END_SECONDS):
            reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=tls)
            writer.write(request)
            line = await reader.readline()
            status = int(line.split()[1]) if line.startswith(b"HTTP/") else 0
            writer.close()
    except TimeoutError:
        status = -1
    except (OSError, IndexError, ValueError):
        status = 0
    stage.attacked("raw bytes", began, status)


# Bodies, from a client with the right certificate.


@row(1, shape.EXTENDER_A)
async def large_bodies(stage: Stage) -> AsyncIterator[None]:
    """Bodies of 50 MB: 5,000 nodes of 10 kB, and zeros; with a length and chunked."""
    node = {"metadata": {"name": "node", "annotations": {"note": "x" * 9_900}}, "status": {}}
    full = {"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [node] * 5_000}}
    for kind, body in (("nodes", json.dumps(full).encode()), ("zeros", bytes(50_000_000))):
        await _post(stage, shape.EXTENDER_A, f"50 MB of {kind}", body)
        await _post(stage, shape.EXTENDER_A, f"50 MB of {kind}, chunked", _chunks(body))
    yield


@row(1, shape.EXTENDER_A)
async def large_bodies_of_tiny_items(stage: Stage) -> AsyncIterator[None]:
    """Bodies of 50 MB with 12 million names, 17 million empty nodes, a pod of 7 million labels, 6 million victims."""
    pod = b'{"Pod":{"metadata":{"name":"p"}},'
    bodies = {
        "names": ("filter", pod + b'"NodeNames":[' + b'"n",' * 12_500_000 + b'"n"]}'),
        "nodes": ("filter", pod + b'"Nodes":{"items":[' + b"{}," * 17_000_000 + b"{}]}}"),
        "labels": ("filter", b'{"Pod":{"metadata":{"name":"p","labels":{' + b'"a":"",' * 7_000_000 + b'"a":""}}}}'),
        "victims": ("preempt", pod + b'"NodeNameToMetaVictims":{' + b'"a":{},' * 6_000_000 + b'"a":{}}}'),
    }
    for kind, (verb, body) in bodies.items():
        await _post(stage, shape.EXTENDER_A, f"50 MB of {kind}", body, verb)
    yield


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


@row(1, shape.EXTENDER_B)
async def gzip_bombs(stage: Stage) -> AsyncIterator[None]:
    """Bodies that unpack to 1 GiB, as gzip and deflate, 20 times each."""
    bomb = await asyncio.to_thread(gzip.compress, bytes(1 << 30), 1)
    for encoding in ("gzip", "deflate", "br"):
        for _ in range(20):
            await _post(stage, shape.EXTENDER_B, f"{encoding} bomb", bomb, encoding=encoding)
    yield


async def _post(
    stage: Stage, extender: str, kind: str, body: Any, verb: str = "filter", encoding: str = "identity"
) -> None:
    began = time.monotonic()
    status = await stage.client.post(extender, verb, body, NO_END_SECONDS, {"Content-Encoding": encoding})
    stage.attacked(kind, began, status)


# Pods.


@row(1, shape.EXTENDER_A, shape.EXTENDER_B)
async def pods_of_40000_labels(stage: Stage) -> AsyncIterator[None]:
    """140 pods of 40,000 labels are scheduled through each extender."""
    body = json.dumps(_pod("the-pod", shape.CLUSTER_NODES, MANY_LABELS)).encode()
    for number in range(140):
        pod = body.replace(b'"the-pod"', b'"labels-%d"' % number)
        for extender in shape.EXTENDERS:
            for verb in ("filter", "prioritize"):
                await _post(stage, extender, verb, pod, verb)
    yield


@row(8, "api", "agent-edge-4")
async def followed_pods_of_40000_labels(stage: Stage) -> AsyncIterator[None]:
    """30 pods of 40,000 labels and annotations run on one node, and 30 wait: agents and controllers follow them."""
    names = [f"large-{number}" for number in range(60)]
    for number, name in enumerate(names):
        labels = MANY_LABELS | {"telemetry-policy": "hot"}
        pod = {
            "metadata": {"labels": labels, "annotations": {"note": "x" * 200_000}},
            "spec": {"nodeName": "edge-4"} if number % 2 else {},
            "status": {"phase": "Running" if number % 2 else "Pending"},
        }
        await asyncio.to_thread(stage.cluster.api.put, f"/api/v1/namespaces/default/pods/{name}", pod)
    yield
    for name in names:
        await asyncio.to_thread(stage.cluster.api.delete, f"/api/v1/namespaces/default/pods/{name}")


@row(1, shape.EXTENDER_A)
async def pods_of_32_bounds(stage: Stage) -> AsyncIterator[None]:
    """48 pods of 32 bounds over 5,000 nodes, sixteen at a time."""
    candidates = [*shape.NODES, *(f"unknown-{number}" for number in range(5_000 - len(shape.NODES)))]
    bounds = {f"delay_{node}": "500" for node in shape.NODES} | {f"delay_other-{number}": "500" for number in range(24)}
    for batch in range(3):
        pods = (_pod(f"bounds-{batch}-{number}", candidates, bounds) for number in range(16))
        await asyncio.gather(*(_schedule(stage, shape.EXTENDER_A, args) for args in pods))
    yield


def _pod(name: str, candidates: Any, labels: Mapping[str, str]) -> dict[str, Any]:
    args = scheduler_request.captured_args(candidates, dict(labels))
    args["Pod"]["metadata"] |= {"name": name, "uid": name, "namespace": "hostile"}
    return args


async def _schedule(stage: Stage, extender: str, args: dict[str, Any]) -> None:
    began = time.monotonic()
    done = await stage.client.schedule(extender, args)
    stage.attacked(f"filter and prioritize to {extender}", began, done.status or -1)


# One node's own credentials, and its prefix in etcd.


def _put(cluster: Cluster, items: Mapping[str, bytes]) -> None:
    _write(
        cluster, [{"requestPut": {"key": as_base64(key), "value": as_base64(value)}} for key, value in items.items()]
    )


def _delete(cluster: Cluster, names: Iterable[str]) -> None:
    """Key by key: all of a large range at once holds up etcd for seconds, which would be another row."""
    _write(cluster, [{"requestDeleteRange": {"key": as_base64(key)}} for key in names])


def _write(cluster: Cluster, operations: Sequence[Mapping[str, object]]) -> None:
    """Through a member that runs, in transactions of 128."""
    for start in range(0, len(operations), 128):
        cluster.etcd[0].post("/v3/kv/txn", {"success": operations[start : start + 128]})


def _old_etcd(cluster: Cluster) -> str:
    version = cluster.etcd[0].version
    if version >= (3, 5, 5):
        return ""
    release = ".".join(map(str, version))
    return (
        f"etcd {release} panics under these writes now and then (etcd-io/etcd#14110, mended in 3.5.5): "
        "put a newer one on PATH, as `python -m tests.newer_etcd FOLDER` brings it"
    )


@row(8, "etcd", lacks=_old_etcd)
async def crowded_prefix(stage: Stage) -> AsyncIterator[None]:
    """40,000 rewards and 2,000 records of junk under one node's prefix."""
    reward = b'{"v":1,"at_seconds":1.0,"healthy":5.0}'
    rewards = {keys.reward_key("edge-5", f"type-{number}"): reward for number in range(40_000)}
    junk = {f"{keys.node_prefix('edge-5')}junk-{number}": b"\xff" * 1_000 for number in range(2_000)}
    await asyncio.to_thread(_put, stage.cluster, rewards | junk)
    yield
    await asyncio.to_thread(_delete, stage.cluster, rewards | junk)


@row(0, shape.LAST_AGENT)
async def junk_identity(stage: Stage) -> AsyncIterator[None]:
    """A forged identity without a lease waits for a node's agent when it starts."""
    cluster = stage.cluster
    cluster.terminate(shape.LAST_AGENT)
    await cluster.until(lambda: cluster.processes[shape.LAST_AGENT].child.poll() is not None, "it ended")
    forged = {f"{keys.node_prefix(shape.LAST_NODE)}identity": b'{"v":1,"owner":"nobody","epoch":9,"address":"\\u0000"}'}
    await asyncio.to_thread(_put, cluster, forged)
    started_at = time.monotonic()
    await cluster.restart(shape.LAST_AGENT)
    reported = stage.recorder.all_pushed_since
    await stage.measure(
        "it reports", AGENT_SECONDS, lambda: reported(started_at, frozenset({shape.LAST_NODE})), started_at
    )
    yield


@row(20, shape.LAST_AGENT)
async def a_node_that_lies(stage: Stage) -> AsyncIterator[None]:
    """A far node reports 0.001 ms to everybody, each second: it must not pass a bound that it does not keep."""
    lying = asyncio.create_task(_lie(stage.cluster, shape.LAST_NODE))
    yield
    lying.cancel()
    await asyncio.gather(lying, return_exceptions=True)
    stage.cluster.kill(shape.LAST_AGENT)
    await stage.cluster.restart(shape.LAST_AGENT)


async def _lie(cluster: Cluster, node: str) -> None:
    window = {"sent": 30, "received": 30, "p50_ms": 0.001, "p95_ms": 0.001, "min_ms": 0.001, "jitter_ms": 0.0}
    record = {"v": 1, "peers": {peer: window for peer in shape.NODES if peer != node}}
    while True:
        await asyncio.to_thread(_put, cluster, {f"{keys.node_prefix(node)}latency": json.dumps(record).encode()})
        await asyncio.sleep(1)


# Policies.


@row(12, "api", "load")
async def policy_of_5000_labels(stage: Stage) -> AsyncIterator[None]:
    """A policy that sets 5,000 labels, and one whose name no label can have; another policy's labels must come."""
    always = {"metricname": "load1_per_cpu", "operator": "GreaterThan", "target": -1}
    huge = {"labeling": {"rules": [always | {"labels": [f"{'k' * 50}-{number}={number}" for number in range(5_000)]}]}}
    small = {"labeling": {"rules": [always | {"labels": ["tried=yes"]}]}}
    policies = {"huge": huge, "n" * 64: {"deschedule": {"rules": [always]}}, "small": small}
    for name, strategies in policies.items():
        stage.cluster.api.put(f"{POLICIES}/{name}", {"spec": {"strategies": strategies}})
    label = "telemetry.aware.scheduling.small/tried"
    await stage.measure("the other policy's label", 15, lambda: _is_labelled(stage.cluster, label))
    yield
    for name in policies:
        stage.cluster.api.delete(f"{POLICIES}/{name}")
    await stage.measure("its labels are gone", 30, lambda: not _is_labelled(stage.cluster, label))


def _is_labelled(cluster: Cluster, label: str) -> bool:
    nodes = cluster.api.call(lambda server: server.objects.all(ObjectPath("/api/v1/nodes")))
    return any(label in (node["metadata"].get("labels") or {}) for node in nodes)


def allow_descriptors(count: int = 8192) -> str:
    """Raises this process's limit. Why it cannot; "" when it could."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        return f"needs {count} file descriptors; the hard limit is {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    return ""
