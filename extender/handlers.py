"""HTTP handlers of kube-scheduler's four verbs. Each reads, decides and answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from extender.body_limits import BodyReader, HeldBody
from extender.decider import Decider
from extender.wire.nodes import KnownNodes, NodeStream
from extender.wire.verbs import (
    BindingArgs,
    CachedArgsReader,
    ExtenderArgs,
    most_preemption_bytes,
    read_binding,
    read_preemption,
)
from leadsman.decision.decide import FilterResult
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError
from leadsman.kube.resources import PODS
from leadsman.runtime.lru import IdentityKey, LruCache

# Encodes responses as kube-scheduler's Go types read them. Source: k8s.io/kube-scheduler/extender/v1/types.go.
#
# These encoders cannot express what kube-scheduler takes badly: `{}` or null rejects every node, even of an ignorable
# extender; one score that is not a JSON integer voids all scores; a node in FailedNodes becomes a candidate for
# preemption, so every refusal goes into FailedAndUnresolvableNodes.

_encode = msgspec.json.Encoder().encode


class _HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


BIND_TIMEOUT_SECONDS = 5.0


def _encode_filtered(nodes: Raw | None, names: Sequence[str] | None, reasons: Mapping[str, str]) -> bytes:
    refused = {"FailedAndUnresolvableNodes": reasons, "FailedNodes": {}, "Error": ""}
    return _encode({"Nodes": nodes, "NodeNames": names, **refused})


def filtered_names(kept: Sequence[str], reasons: Mapping[str, str]) -> bytes:
    """Encodes filter's result in the names form. reasons: refused node → why."""
    return _encode_filtered(None, kept, reasons)


def filtered_nodes(items: Sequence[Raw | bytes], reasons: Mapping[str, str]) -> tuple[int, Iterator[bytes]]:
    """Encodes filter's result in the node form, with the kept nodes byte for byte as they came: its length in bytes,
    and its chunks, which are made as they are sent.

    In chunks, because 45 MB in one piece cost 90 ms of copies and page faults.
    """
    head, tail = _encode_filtered(_PLACEHOLDER, None, reasons).split(_PLACEHOLDER_BYTES, 1)
    before, after = head + b'{"metadata":{},"items":[', b"]}" + tail
    commas = max(0, len(items) - 1)
    length = len(before) + sum(memoryview(item).nbytes for item in items) + commas + len(after)
    return length, chain([before], _chunks(items), [after])


def _chunks(items: Sequence[Raw | bytes]) -> Iterator[bytes]:
    """Yields the items with commas between."""
    chunk, chunk_bytes, separator = list[Raw | bytes](), 0, b""
    for item in items:
        chunk.append(item)
        chunk_bytes += memoryview(item).nbytes
        if chunk_bytes >= _CHUNK_BYTES:
            yield separator + b",".join(chunk)
            chunk, chunk_bytes, separator = [], 0, b","
    if chunk:
        yield separator + b",".join(chunk)


_CHUNK_BYTES = 200 << 10
"""An answer is written in parts of this size: about what a socket takes at once, or one item where that is larger."""

_PLACEHOLDER_BYTES = b'"here the nodes"'
_PLACEHOLDER = Raw(_PLACEHOLDER_BYTES)


def host_priorities(scores: Mapping[str, int]) -> bytes:
    """Encodes prioritize's result. scores: node → 0..10."""
    return _encode([_HostPriority(host, score) for host, score in scores.items()])


SEND_TIMEOUT_SECONDS = 10.0

REQUEST_BYTES_PER_NODE = 500
"""A candidate takes so much memory while its request is answered: its name, where it stands, its refusal, its part of
the answer."""


CACHED_BODIES = 2
"""Responses kept of each of two generations, some 0.2 MB each at 5,000 nodes."""


class VerbHandlers:
    """Handles the requests of filter, prioritize and preempt."""

    def __init__(self, decider: Decider, bodies: BodyReader) -> None:
        self._decider, self._bodies = decider, bodies
        self._reader = CachedArgsReader()
        self._known_nodes = KnownNodes(time.monotonic)
        self._bodies_by_result: LruCache[IdentityKey, bytes] = LruCache(CACHED_BODIES)

    async def filter(self, request: web.Request) -> web.StreamResponse:
        stream = NodeStream(self._known_nodes)
        async with self._bodies.read(request, stream.take) as body:
            args = self._read(body, stream)
            filter_result = await self._decider.filter(args.pod, args.node_names)
            if args.raw_nodes is None:
                return _json(
                    self._encoded(filter_result, lambda: filtered_names(filter_result.kept, _reasons(filter_result)))
                )
            items = [args.raw_nodes[node] for node in filter_result.kept]
            return await _send_chunks(request, *filtered_nodes(items, _reasons(filter_result)))

    async def prioritize(self, request: web.Request) -> web.Response:
        stream = NodeStream(self._known_nodes)
        async with self._bodies.read(request, stream.take) as body:
            args = self._read(body, stream)
            scores = await self._decider.prioritize(args.pod, args.node_names)
            return _json(self._encoded((scores,), lambda: host_priorities(scores)))

    async def preempt(self, request: web.Request) -> web.Response:
        """Keeps the victims of nodes that filter accepts, unless a placeholder is among them that must stay."""
        async with self._bodies.read(request) as body:
            body.charge(most_preemption_bytes(body.data))
            args = read_preemption(body.data)
            victims = {node: [pod.uid for pod in each.pods or ()] for node, each in args.victims.items()}
            filter_result = await self._decider.preempt(args.pod, victims)
            kept = {node: args.victims[node] for node in filter_result.kept}
            return _json(_encode({"NodeNameToMetaVictims": kept}))

    def _encoded(self, result: Iterable[object], encode: Callable[[], bytes]) -> bytes:
        """Encodes once while decisions have the same result: pods that come one after another often do."""
        key = IdentityKey(result)
        body = self._bodies_by_result.get(key)
        if body is None:
            body = encode()
            self._bodies_by_result.put(key, body)
        return body

    def _read(self, body: HeldBody, stream: NodeStream) -> ExtenderArgs:
        taken_bytes = body.received_bytes - len(body.data)
        if not taken_bytes:
            args = self._reader.read_args(body.data)
        elif streamed := stream.finish(body.data):
            args = self._reader.read_node_args(*streamed)
        else:
            body.charge(taken_bytes)  # What was taken is there twice for a moment.
            args = self._reader.read_args(stream.whole(body.data))
        body.charge(REQUEST_BYTES_PER_NODE * len(args.node_names))
        return args


class BindHandler:
    """Handles bind, by POST …/pods/<name>/binding. Off by default: kube-scheduler binds itself."""

    def __init__(
        self, api: ApiClient, bodies: BodyReader, report_failure: Callable[[BindingArgs, ApiError], None]
    ) -> None:
        """kube-scheduler sends any number of binds at once; the connections of `api` limit what the API server gets.

        report_failure: called with each bind that the API server did not make.
        """
        self._api, self._bodies, self._report_failure = api, bodies, report_failure

    async def client_session(self, _: web.Application) -> AsyncIterator[None]:
        async with self._api:
            yield

    async def bind(self, request: web.Request) -> web.Response:
        async with self._bodies.read(request) as body:
            binding = read_binding(body.data)
        error = ""  # Only once the API server has bound the pod.
        try:
            path = PODS.path(binding.namespace, binding.name, "binding")
            await self._api.send(ApiRequest("POST", path, body=_binding_object(binding)))
        except ApiError as refused:
            error = str(refused)
            self._report_failure(binding, refused)
        return _json(_encode({"Error": error}))


def _binding_object(binding: BindingArgs) -> dict[str, Any]:
    """Given the UID, the API server refuses to bind another pod of the same name."""
    meta = {"name": binding.name, "namespace": binding.namespace} | ({"uid": binding.uid} if binding.uid else {})
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def _reasons(result: FilterResult) -> Mapping[str, str]:
    return {node: refusal.reason for node, refusal in result.refused.items()}


async def _send_chunks(request: web.Request, length: int, chunks: Iterable[bytes]) -> web.StreamResponse:
    """Sends the body and returns the response. A client that does not read it in time is disconnected, and
    one that has left is not our fault."""
    response = web.StreamResponse()
    response.content_type, response.content_length = "application/json", length
    await response.prepare(request)
    try:
        async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
            for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
    except (TimeoutError, ConnectionResetError):
        if request.transport:
            request.transport.abort()
    return response


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
