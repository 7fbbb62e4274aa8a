"""kube-scheduler's four verbs, and two pages for people. Each handler: read, decide, answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from aiohttp import hdrs, web

from extender import pages, responses, rewards_page, wire
from extender.binding import bind
from extender.body_limits import BodyReader
from extender.decider import Decider
from extender.request_cache import CachedArgsReader
from extender.worker_pool import DeadlineExceeded
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.sources.input_sources import InputSources

_log = logging.getLogger(__name__)

PAGE_TIMEOUT_SECONDS = 5.0

SEND_TIMEOUT_SECONDS = 10.0

MAX_CACHED_BODY_BYTES = 1 << 20
"""Of a body in the names form, which has 67 KB for 5,000 nodes."""


class VerbHandlers:
    """What kube-scheduler asks."""

    def __init__(self, decider: Decider, bodies: BodyReader) -> None:
        self._decider, self._bodies = decider, bodies
        self._reader = CachedArgsReader()
        self._filtered: tuple[bytearray, wire.ExtenderArgs] | None = None

    async def filter(self, request: web.Request) -> web.StreamResponse:
        async with self._bodies.read(request) as body:
            asked = self._reader.read_args(body)
            self._filtered = (body, asked) if len(body) <= MAX_CACHED_BODY_BYTES else None
            judged = await self._decider.filter(asked.pod, asked.node_names)
            reasons = {node: refusal.reason for node, refusal in judged.refused.items()}
            if asked.raw_nodes is None:
                return _json(responses.filter_result(judged.kept, reasons))
            items = [asked.raw_nodes[node] for node in judged.kept]
            return await _send_chunks(request, responses.node_filter_result(items, reasons))

    async def prioritize(self, request: web.Request) -> web.Response:
        async with self._bodies.read(request) as body:
            asked = self._cached_args(body) or self._reader.read_args(body)
        return _json(responses.host_priorities(await self._decider.prioritize(asked.pod, asked.node_names)))

    def _cached_args(self, body: bytearray) -> wire.ExtenderArgs | None:
        """What filter was just asked in the same bytes: so it is when nothing was refused."""
        before = self._filtered
        return before[1] if before and before[0] == body else None

    async def preempt(self, request: web.Request) -> web.Response:
        """Victims only where the pod could then run: nobody is evicted for a node that filter refuses."""
        async with self._bodies.read(request) as body:
            asked = wire.read_preemption(body)
        judged = await self._decider.preempt(asked.pod, tuple(asked.victims))
        return _json(responses.preemption_result({node: asked.victims[node] for node in judged.kept}))


class BindHandler:
    """Off by default: kube-scheduler binds itself."""

    def __init__(
        self, api: ApiClient, bodies: BodyReader, failed: Callable[[wire.BindingArgs, ApiError], None] = lambda *_: None
    ) -> None:
        """kube-scheduler binds in parallel without bound; the API server gets as many at once as `api` opens."""
        self._api, self._bodies, self._failed = api, bodies, failed

    async def client_session(self, _: web.Application) -> AsyncIterator[None]:
        async with self._api:
            yield

    async def bind(self, request: web.Request) -> web.Response:
        async with self._bodies.read(request) as body:
            binding = wire.read_binding(body)
        return _json(
            responses.binding_result(await bind(self._api, binding, lambda error: self._failed(binding, error)))
        )


class PageHandlers:
    """What people ask. Made on a worker, because 5,000 nodes take some 10 ms."""

    def __init__(self, decider: Decider, sources: InputSources) -> None:
        self._decider, self._sources = decider, sources

    async def explain(self, request: web.Request) -> web.Response:
        """/explain?pod=namespace/name, as text; JSON by Accept or format=json."""
        kept, json = pages.find_entry(self._decider.journal, request.query.get("pod")), _wants_json(request)
        clock, groups = self._sources.clock, self._sources.delay_status.groups
        return await self._page(request, lambda: pages.render_explain(kept, clock(), json, groups), json)

    async def state(self, request: web.Request) -> web.Response:
        snapshot, problem, json = self._sources.state.current, self._sources.policy.problem, _wants_json(request)
        clock, beside = self._sources.clock, self._sources.delay_status
        return await self._page(request, lambda: pages.render_state(snapshot, clock(), problem, json, beside), json)

    async def rewards(self, request: web.Request) -> web.Response:
        """/rewards?type=web&node=edge-1, each optional."""
        facts, json = self._sources.current_inputs(), _wants_json(request)
        pod_type, node = request.query.get("type", ""), request.query.get("node", "")
        return await self._page(request, lambda: rewards_page.render(facts, pod_type, node, json), json)

    async def _page(self, request: web.Request, make: Callable[[], bytes], json: bool) -> web.Response:
        try:
            page = await self._decider.workers.run(make, PAGE_TIMEOUT_SECONDS)
        except DeadlineExceeded as error:
            return web.Response(status=503, text=f"{error}\n")
        except Exception as error:  # Most likely a plugin's; it is told, and the server goes on.
            _log.exception("%s failed", request.path)
            return web.Response(status=503, text=f"{request.path} failed: {type(error).__name__}: {error}\n")
        return _json(page) if json else web.Response(body=page, content_type="text/plain", charset="utf-8")


async def _send_chunks(request: web.Request, parts: responses.ChunkedBody) -> web.StreamResponse:
    """The answer, sent. A client that takes too long over it is cut."""
    answer = web.StreamResponse()
    answer.content_type, answer.content_length = "application/json", parts.length
    await answer.prepare(request)
    try:
        async with asyncio.timeout(SEND_TIMEOUT_SECONDS):
            for chunk in parts.chunks:
                await answer.write(chunk)
            await answer.write_eof()
    except TimeoutError:
        if request.transport:
            request.transport.abort()
    return answer


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _wants_json(request: web.Request) -> bool:
    return request.query.get("format") == "json" or "application/json" in request.headers.get(hdrs.ACCEPT, "")
