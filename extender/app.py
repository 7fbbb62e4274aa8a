"""The extender's two applications: what kube-scheduler calls, and what operators watch on a port of its own."""

import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client.aiohttp import make_aiohttp_handler

from apiserver.errors import ApiError
from apiserver.requests import Client
from decision.rewards import type_of
from extender import metrics as shown
from extender.asking import Ask
from extender.bind_failures import BindFailures
from extender.bodies import Bodies, Refused
from extender.connections import guard_of
from extender.deciding import OURS, Core, Decider
from extender.handlers import BindVerb, Pages, Verbs
from extender.journal import Journal
from extender.metrics import Metrics
from extender.rewards_metrics import of_rewards
from extender.wire import BadRequest, Binding
from extender.workers import Workers
from facts.sources import Sources, State

_log = logging.getLogger(__name__)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_app(
    sources: Sources,
    *,
    metrics: Metrics,
    workers: Workers,
    journal: Journal | None = None,
    bodies: Bodies | None = None,
    api: Client | None = None,
    core: Core = OURS,
    ask: Ask | None = None,
    binds: BindFailures | None = None,
) -> web.Application:
    """filter, prioritize, preempt, /explain, /state and /rewards; bind when `api` is given.

    ask: told which pairs to measure. binds: told of binds that failed.

    The verbs also stand under /scheduler/. Serve it with `connections.serve`, which has the deadlines.
    """
    journal, bodies = journal or Journal(), bodies or Bodies()
    decider = Decider(sources, journal=journal, metrics=metrics, workers=workers, core=core, ask=ask)
    verbs, pages = Verbs(decider, bodies), Pages(decider, sources)
    app = web.Application(middlewares=[_answering(metrics)])
    table: dict[str, _Handler] = {"filter": verbs.filter, "prioritize": verbs.prioritize, "preempt": verbs.preempt}
    if api:
        binder = BindVerb(api, bodies, _noting(binds, journal) if binds else lambda *_: None)
        app.cleanup_ctx.append(binder.session)
        table["bind"] = binder.bind
    for verb, handler in table.items():
        app.add_routes([web.post(f"/{verb}", handler, name=verb), web.post(f"/scheduler/{verb}", handler)])
    app.add_routes([web.get("/explain", pages.explain), web.get("/state", pages.state)])
    app.add_routes([web.get("/rewards", pages.rewards)])
    _show(metrics, sources, journal, workers)
    return app


def _noting(binds: BindFailures, journal: Journal) -> Callable[[Binding, ApiError], None]:
    """The type is known of a pod that was just scheduled here; of another, nothing can be learned."""

    def noted(binding: Binding, error: ApiError) -> None:
        entry = journal.get(binding.namespace, binding.name)
        if entry is not None:
            binds.note(binding.node, binding.uid, type_of(entry.pod), error)

    return noted


def create_ops_app(
    state: State, metrics: Metrics, workers: Workers, draining: Callable[[], bool] = lambda: False
) -> web.Application:
    """/metrics, /healthz, /readyz.

    Healthy: some worker thread is still free; nothing else, least of all etcd, makes a restart useful. Ready: not
    draining. An empty state makes answers neutral, not wrong, and an extender that is not ready would only be
    missing, so readiness does not wait for it; the page says which of the two holds.
    """

    async def healthz(_: web.Request) -> web.Response:
        stuck = workers.exhausted
        return web.Response(status=503 if stuck else 200, text=f"{'all workers are stuck' if stuck else 'ok'}\n")

    async def readyz(_: web.Request) -> web.Response:
        if draining():
            return web.Response(status=503, text="draining\n")
        loaded = state.current.revision > 0
        return web.Response(text="ok\n" if loaded else "ok; no state is loaded, answers are neutral\n")

    app = web.Application(middlewares=[_guarded])
    scrape = make_aiohttp_handler(metrics.registry, disable_compression=True)
    app.add_routes([web.get("/metrics", scrape), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


def _show(metrics: Metrics, sources: Sources, journal: Journal, workers: Workers) -> None:
    metrics.show(lambda: shown.of_state(sources.state.current, sources.clock()))
    metrics.show(lambda: of_rewards(sources.facts()))
    metrics.show(lambda: shown.of_journal(len(journal), journal.nodes, workers.overdue))


@web.middleware
async def _guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Tells the connection's guard when a request begins and ends."""
    guard = guard_of(request)
    if guard is None:
        return await handler(request)
    guard.headers_read(request.content)
    try:
        answer = await handler(request)
    finally:
        guard.answered()
    if guard.half_closed:
        answer.force_close()
    return answer


def _answering(metrics: Metrics) -> Middleware:
    """Counts and times every answer, and turns the client's faults into clean ones."""

    @web.middleware
    async def answering(request: web.Request, handler: _Handler) -> web.StreamResponse:
        began = time.perf_counter()
        answer = await _guarded(request, lambda asked: _clean(asked, handler))
        metrics.answered(_verb(request), answer.status, time.perf_counter() - began)
        return answer

    return answering


def _verb(request: web.Request) -> str:
    """The route's last part; "other" for a path that is none of ours."""
    resource = request.match_info.route.resource
    return resource.canonical.rpartition("/")[2] if resource else "other"


async def _clean(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequest as error:
        return _refused(400, str(error))
    except Refused as error:
        return _refused(error.status, str(error))
    except web.HTTPException as error:
        return _refused(error.status, error.reason, error.headers.get("Allow"))


def _refused(status: int, text: str, allow: str | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Allow": allow} if allow else None)
