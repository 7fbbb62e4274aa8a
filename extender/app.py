"""The extender's two applications: what kube-scheduler calls, and what operators watch on a port of its own."""

import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client.aiohttp import make_aiohttp_handler

from extender import metrics as shown
from extender.bind_failures import BindFailureReporter
from extender.body_limits import BodyReader, RequestRefused
from extender.decider import DEFAULT_CORE, Decider, DecisionCore
from extender.handlers import BindHandler, PageHandlers, VerbHandlers
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.probe_on_demand import RequestProbes
from extender.rewards_metrics import reward_metrics
from extender.wire import BadRequest, BindingArgs
from extender.worker_pool import WorkerPool
from leadsman.decision.rewards.rewards_score import pod_type_of
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.http_server import connection_guard
from leadsman.sources.input_sources import InputSources, StateSource

_log = logging.getLogger(__name__)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def create_app(
    sources: InputSources,
    *,
    metrics: ExtenderMetrics,
    workers: WorkerPool,
    journal: Journal | None = None,
    bodies: BodyReader | None = None,
    api: ApiClient | None = None,
    core: DecisionCore = DEFAULT_CORE,
    ask: RequestProbes | None = None,
    binds: BindFailureReporter | None = None,
) -> web.Application:
    """filter, prioritize, preempt, /explain, /state and /rewards; bind when `api` is given.

    ask: told which pairs to measure. binds: told of binds that failed.

    The verbs also stand under /scheduler/. Serve it with `connections.serve`, which has the deadlines.
    """
    journal, bodies = journal or Journal(), bodies or BodyReader()
    decider = Decider(sources, journal=journal, metrics=metrics, workers=workers, core=core, ask=ask)
    verbs, pages = VerbHandlers(decider, bodies), PageHandlers(decider, sources)
    app = web.Application(middlewares=[_observe_requests(metrics)])
    table: dict[str, _Handler] = {"filter": verbs.filter, "prioritize": verbs.prioritize, "preempt": verbs.preempt}
    if api:
        binder = BindHandler(api, bodies, _bind_failure_callback(binds, journal) if binds else lambda *_: None)
        app.cleanup_ctx.append(binder.client_session)
        table["bind"] = binder.bind
    for verb, handler in table.items():
        app.add_routes([web.post(f"/{verb}", handler, name=verb), web.post(f"/scheduler/{verb}", handler)])
    app.add_routes([web.get("/explain", pages.explain), web.get("/state", pages.state)])
    app.add_routes([web.get("/rewards", pages.rewards)])
    _register_metrics(metrics, sources, journal, workers)
    return app


def _bind_failure_callback(binds: BindFailureReporter, journal: Journal) -> Callable[[BindingArgs, ApiError], None]:
    """The type is known of a pod that was just scheduled here; of another, nothing can be learned."""

    def noted(binding: BindingArgs, error: ApiError) -> None:
        entry = journal.get(binding.namespace, binding.name)
        if entry is not None:
            binds.report(binding.node, binding.uid, pod_type_of(entry.pod), error)

    return noted


def create_ops_app(
    state: StateSource, metrics: ExtenderMetrics, workers: WorkerPool, draining: Callable[[], bool] = lambda: False
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

    app = web.Application(middlewares=[_track_request])
    scrape = make_aiohttp_handler(metrics.registry, disable_compression=True)
    app.add_routes([web.get("/metrics", scrape), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


def _register_metrics(metrics: ExtenderMetrics, sources: InputSources, journal: Journal, workers: WorkerPool) -> None:
    metrics.add_collector(lambda: shown.state_metrics(sources.state.current, sources.clock()))
    metrics.add_collector(lambda: reward_metrics(sources.current_inputs()))
    metrics.add_collector(lambda: shown.journal_metrics(len(journal), journal.held_nodes, workers.overdue))


@web.middleware
async def _track_request(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Tells the connection's guard when a request begins and ends."""
    guard = connection_guard(request)
    if guard is None:
        return await handler(request)
    guard.request_started(request.content)
    try:
        answer = await handler(request)
    finally:
        guard.request_finished()
    if guard.half_closed:
        answer.force_close()
    return answer


def _observe_requests(metrics: ExtenderMetrics) -> Middleware:
    """Counts and times every answer, and turns the client's faults into clean ones."""

    @web.middleware
    async def answering(request: web.Request, handler: _Handler) -> web.StreamResponse:
        began = time.perf_counter()
        answer = await _track_request(request, lambda asked: _map_client_errors(asked, handler))
        metrics.observe_request(_verb(request), answer.status, time.perf_counter() - began)
        return answer

    return answering


def _verb(request: web.Request) -> str:
    """The route's last part; "other" for a path that is none of ours."""
    resource = request.match_info.route.resource
    return resource.canonical.rpartition("/")[2] if resource else "other"


async def _map_client_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequest as error:
        return _error_response(400, str(error))
    except RequestRefused as error:
        return _error_response(error.status, str(error))
    except web.HTTPException as error:
        return _error_response(error.status, error.reason, error.headers.get("Allow"))


def _error_response(status: int, text: str, allow: str | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Allow": allow} if allow else None)
