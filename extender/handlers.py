"""HTTP handlers of kube-scheduler's four verbs and of three pages for people. Each reads, decides and answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

from aiohttp import hdrs, web

from extender import pages, responses, rewards_page
from extender.binding import bind
from extender.body_limits import BodyReader, HeldBody, RequestRefused
from extender.decider import Decider
from extender.request_cache import CachedArgsReader
from extender.what_if import decide_what_if
from extender.wire.verbs import BindingArgs, ExtenderArgs, most_preemption_bytes, read_binding, read_preemption
from extender.worker_pool import DeadlineExceeded
from leadsman.decision.decide import FilterResult
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.lru import IdentityKey, LruCache
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.input_sources import InputSources

_log = logging.getLogger(__name__)

PAGE_TIMEOUT_SECONDS = 5.0

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
        self._bodies_by_result: LruCache[IdentityKey, bytes] = LruCache(CACHED_BODIES)

    async def filter(self, request: web.Request) -> web.StreamResponse:
        async with self._bodies.read(request) as body:
            args = self._read(body)
            filter_result = await self._decider.filter(args.pod, args.node_names)
            if args.raw_nodes is None:
                return _json(self._encoded(filter_result, lambda: _filter_body(filter_result)))
            reasons = _reasons(filter_result)
            items = [args.raw_nodes[node] for node in filter_result.kept]
            return await _send_chunks(request, responses.node_filter_result(items, reasons))

    async def prioritize(self, request: web.Request) -> web.Response:
        async with self._bodies.read(request) as body:
            args = self._read(body)
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

    def _read(self, body: HeldBody) -> ExtenderArgs:
        args = self._reader.read_args(body.data)
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


class PageHandlers:
    """Handlers of the pages for people. Pages are made on a worker: some 10 ms at 5,000 nodes."""

    def __init__(self, decider: Decider, sources: InputSources, tls_problem: ProblemLog | None = None) -> None:
        self._decider, self._sources, self._tls_problem = decider, sources, tls_problem

    async def explain(self, request: web.Request) -> web.Response:
        """/explain?pod=namespace/name, as text; JSON by Accept or format=json."""
        entry, json = pages.find_entry(self._decider.journal, request.query.get("pod")), _wants_json(request)
        clock, groups, backups = self._sources.clock, self._sources.delay_status.groups, self._sources.backups

        def page() -> bytes:
            return pages.render_explain(entry, clock(), json, groups, backups.of_pod(entry.pod.uid))

        return await self._page(request, page, json)

    async def explain_what_if(self, request: web.Request) -> web.Response:
        """POST /explain: YAML of a pod or workload → the page of the decision on it, which nothing keeps."""
        yaml, json = (await request.read()).decode(errors="replace"), _wants_json(request)
        inputs, core, groups = self._sources.current_inputs(), self._decider.core, self._sources.delay_status.groups

        def page() -> bytes:
            entry = decide_what_if(yaml, inputs.snapshot.nodes, inputs, core)
            return pages.render_explain(entry, inputs.now, json, groups)

        return await self._page(request, page, json)

    async def decisions(self, request: web.Request) -> web.Response:
        """/decisions: those that this replica keeps, the newest first."""
        journal, clock, json = self._decider.journal, self._sources.clock, _wants_json(request)
        entries = journal.newest(len(journal))
        return await self._page(request, lambda: pages.render_decisions(entries, clock(), json), json)

    async def state(self, request: web.Request) -> web.Response:
        snapshot, problem, json = self._sources.state.current, self._sources.policy.problem.text, _wants_json(request)
        clock, delays = self._sources.clock, self._sources.delay_status
        tls = self._tls_problem.text if self._tls_problem else ""
        return await self._page(
            request, lambda: pages.render_state(snapshot, clock(), problem, json, delays, tls), json
        )

    async def rewards(self, request: web.Request) -> web.Response:
        """/rewards?type=web&node=edge-1, each optional."""
        inputs, json = self._sources.current_inputs(), _wants_json(request)
        pod_type, node = request.query.get("type", ""), request.query.get("node", "")
        return await self._page(request, lambda: rewards_page.render(inputs, pod_type, node, json), json)

    async def _page(self, request: web.Request, make: Callable[[], bytes], json: bool) -> web.Response:
        try:
            page = await self._decider.workers.run(make, PAGE_TIMEOUT_SECONDS, request.path)
        except DeadlineExceeded as error:
            return web.Response(status=503, text=f"{error}\n")
        except RequestRefused:
            raise
        except Exception as error:  # Most likely a plugin's: the reader sees it, and the server goes on.
            _log.exception("cannot make the page %s", request.path)
            return web.Response(status=503, text=f"{request.path} failed: {type(error).__name__}: {error}\n")
        return _json(page) if json else web.Response(body=page, content_type="text/plain", charset="utf-8")


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


def _wants_json(request: web.Request) -> bool:
    return request.query.get("format") == "json" or "application/json" in request.headers.get(hdrs.ACCEPT, "")
