"""HTTP handlers of kube-scheduler's four verbs. Each reads, decides and answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from aiohttp import web

from extender import responses
from extender.binding import bind
from extender.body_limits import BodyReader, HeldBody
from extender.decider import Decider
from extender.request_cache import CachedArgsReader
from extender.wire.node_stream import KnownNodes, NodeStream
from extender.wire.verbs import BindingArgs, ExtenderArgs, most_preemption_bytes, read_binding, read_preemption
from leadsman.decision.decide import FilterResult
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.lru import IdentityKey, LruCache

SEND_TIMEOUT_SECONDS = 10.0

REQUEST_BYTES_PER_NODE = 500
"""Of a candidate while its request is answered: its name, where it stands, its refusal, its part of the answer."""


CACHED_BODIES = 2
"""Responses kept of each of two generations, some 0.2 MB each at 5,000 nodes."""


class VerbHandlers:
    """Handlers of filter, prioritize and preempt."""

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
                return _json(self._encoded(filter_result, lambda: _filter_body(filter_result)))
            reasons = _reasons(filter_result)
            items = [args.raw_nodes[node] for node in filter_result.kept]
            return await _send_chunks(request, responses.node_filter_result(items, reasons))

    async def prioritize(self, request: web.Request) -> web.Response:
        stream = NodeStream(self._known_nodes)
        async with self._bodies.read(request, stream.take) as body:
            args = self._read(body, stream)
            scores = await self._decider.prioritize(args.pod, args.node_names)
            return _json(self._encoded((scores,), lambda: responses.host_priorities(scores)))

    async def preempt(self, request: web.Request) -> web.Response:
        """Keeps the victims of nodes that filter accepts, unless a placeholder is among them that must stay."""
        async with self._bodies.read(request) as body:
            body.charge(most_preemption_bytes(body.data))
            args = read_preemption(body.data)
            victims = {node: [pod.uid for pod in each.pods or ()] for node, each in args.victims.items()}
            filter_result = await self._decider.preempt(args.pod, victims)
            return _json(responses.preemption_result({node: args.victims[node] for node in filter_result.kept}))

    def _encoded(self, result: Iterable[object], encode: Callable[[], bytes]) -> bytes:
        """encode(), once while decisions have the same result: pods that come one after another often do."""
        key = IdentityKey(result)
        body = self._bodies_by_result.get(key)
        if body is None:
            body = encode()
            self._bodies_by_result.put(key, body)
        return body

    def _read(self, body: HeldBody, stream: NodeStream) -> ExtenderArgs:
        if streamed := stream.finish(body.data):
            args = self._reader.read_node_args(*streamed)
        else:
            body.charge(body.received_bytes - len(body.data))  # What was taken is there twice for a moment.
            args = self._reader.read_args(stream.whole(body.data))
        body.charge(REQUEST_BYTES_PER_NODE * len(args.node_names))
        return args


class BindHandler:
    """Handler of bind. Off by default: kube-scheduler binds itself."""

    def __init__(
        self,
        api: ApiClient,
        bodies: BodyReader,
        report_failure: Callable[[BindingArgs, ApiError], None] = lambda *_: None,
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
        error = await bind(self._api, binding, lambda error: self._report_failure(binding, error))
        return _json(responses.binding_result(error))


def _filter_body(result: FilterResult) -> bytes:
    return responses.filter_result(result.kept, _reasons(result))


def _reasons(result: FilterResult) -> Mapping[str, str]:
    return {node: refusal.reason for node, refusal in result.refused.items()}


async def _send_chunks(request: web.Request, body: responses.ChunkedBody) -> web.StreamResponse:
    """Sends the body and returns the response. A client that does not read it in time is disconnected, and
    one that has left is not our fault."""
    response = web.StreamResponse()
    response.content_type, response.content_length = "application/json", body.length
    await response.prepare(request)
    try:
        async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
            for chunk in body.chunks:
                await response.write(chunk)
            await response.write_eof()
    except (TimeoutError, ConnectionResetError):
        if request.transport:
            request.transport.abort()
    return response


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
