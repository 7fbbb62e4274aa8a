"""HTTP handlers of the pages for people: /explain, /decisions, /state and /rewards.

Each is made on a worker: some 10 ms at 5,000 nodes.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import hdrs, web

from extender import pages, rewards_page
from extender.body_limits import BodyReader, RequestRefused
from extender.decider import DEFAULT_CORE, DecisionCore
from extender.journal import Journal
from extender.what_if import decide_what_if
from extender.worker_pool import DeadlineExceeded, WorkerPool
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.input_sources import InputSources

_log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_TIMEOUT_SECONDS = 5.0


class PageHandlers:
    """replica: the process's own name.

    core: what decides a what-if. bodies: reads what is posted, within the limits of all requests.
    """

    def __init__(
        self,
        sources: InputSources,
        journal: Journal,
        workers: WorkerPool,
        tls_problem: ProblemLog | None = None,
        replica: str = "",
        core: DecisionCore = DEFAULT_CORE,
        bodies: BodyReader | None = None,
    ) -> None:
        self._sources, self._journal, self._workers, self._tls_problem = sources, journal, workers, tls_problem
        self._replica, self._core = replica or socket.gethostname(), core
        self._bodies = bodies or BodyReader()

    async def explain(self, request: web.Request) -> web.Response:
        """/explain?pod=namespace/name, as text; JSON by Accept or format=json."""
        name, is_json = request.query.get("pod", ""), _wants_json(request)
        entry = pages.find_entry(self._journal, name)
        if entry is None:
            raise RequestRefused(404, pages.no_decision_text(self._journal, name))
        groups, backup = self._sources.delay_status.groups, self._sources.backups.of_pod(entry.pod.uid)
        return await self._page(
            request, lambda: pages.render_explain(entry, self._sources.clock(), is_json, groups, backup), is_json
        )

    async def explain_what_if(self, request: web.Request) -> web.Response:
        """POST /explain: YAML of a pod or workload → the page of the decision on it, which nothing keeps."""
        async with self._bodies.read(request) as body:
            yaml, is_json = body.data.decode(errors="replace"), _wants_json(request)
        inputs, groups = self._sources.current_inputs(), self._sources.delay_status.groups

        def page() -> bytes:
            entry = decide_what_if(yaml, inputs.snapshot.nodes, inputs, self._core)
            return pages.render_explain(entry, inputs.now, is_json, groups)

        return await self._page(request, page, is_json)

    async def decisions(self, request: web.Request) -> web.Response:
        """/decisions: those that are kept, the newest first."""
        is_json, entries = _wants_json(request), self._journal.newest(len(self._journal))

        def page() -> bytes:
            kept = [pages.kept_decision(each, self._sources.clock(), self._replica) for each in entries]
            return pages.render_decisions(kept, is_json)

        return await self._page(request, page, is_json)

    async def state(self, request: web.Request) -> web.Response:
        snapshot, problem, is_json = (
            self._sources.state.current,
            self._sources.policy.problem.text,
            _wants_json(request),
        )
        clock, delays = self._sources.clock, self._sources.delay_status
        tls = self._tls_problem.text if self._tls_problem else ""
        return await self._page(
            request, lambda: pages.render_state(snapshot, clock(), problem, is_json, delays, tls), is_json
        )

    async def rewards(self, request: web.Request) -> web.Response:
        """/rewards?type=web&node=edge-1, each optional."""
        inputs, is_json = self._sources.current_inputs(), _wants_json(request)
        pod_type, node = request.query.get("type", ""), request.query.get("node", "")
        return await self._page(request, lambda: rewards_page.render(inputs, pod_type, node, is_json), is_json)

    async def _page(self, request: web.Request, make: Callable[[], bytes], is_json: bool) -> web.Response:
        return await self._made(request, self._on_worker(request, make), is_json)

    async def _on_worker(self, request: web.Request, make: Callable[[], T]) -> T:
        return await self._workers.run(make, PAGE_TIMEOUT_SECONDS, request.path)

    async def _made(self, request: web.Request, page: Awaitable[bytes], is_json: bool) -> web.Response:
        try:
            return _page_response(await page, is_json)
        except DeadlineExceeded as error:
            return web.Response(status=503, text=f"{error}\n")
        except RequestRefused:
            raise
        except Exception as error:  # Most likely a plugin's: the reader sees it, and the server goes on.
            _log.exception("cannot make the page %s", request.path)
            return web.Response(status=503, text=f"{request.path} failed: {type(error).__name__}: {error}\n")


def _page_response(body: bytes, is_json: bool) -> web.Response:
    if is_json:
        return web.Response(body=body, content_type="application/json")
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


def _wants_json(request: web.Request) -> bool:
    return request.query.get("format") == "json" or "application/json" in request.headers.get(hdrs.ACCEPT, "")
