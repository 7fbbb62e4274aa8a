"""The extender's two web applications: one for kube-scheduler, one on a port of its own for metrics and health."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

from extender import metrics as shown
from extender.body_limits import BodyReader, RequestRefused
from extender.dead_links import DeadLinkFinder
from extender.decider import Decider
from extender.handlers import BindHandler, VerbHandlers
from extender.metrics import ExtenderMetrics, reward_metrics
from extender.record_queues import BindFailureQueue
from extender.wire.bad_request import BadRequest
from extender.wire.verbs import BindingArgs
from extender.worker_pool import WorkerPool
from leadsman.decision.model import pod_type_of
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime import http_server
from leadsman.runtime.http_server import Health, HealthCheck, good_unless
from leadsman.sources.source import ListedSource

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)

KUBERL_PRIORITIZE = "/scheduler/priorities/rl-priority"
"""A scheduler that was set up for kubeRL calls prioritize by this path."""


def create_app(
    decider: Decider,
    bodies: BodyReader | None = None,
    api: ApiClient | None = None,
    bind_failures: BindFailureQueue | None = None,
) -> web.Application:
    """Builds the application for kube-scheduler: filter, prioritize, preempt and, with `api`, bind.

    api: the API server's client for the bind verb; None: bind is not offered.
    bind_failures: receives the binds that failed.

    The verbs are also served under /scheduler/, and prioritize at kubeRL's path. Serve it with
    `http_server.serve`, which has the deadlines.
    """
    bodies, journal, metrics = bodies or BodyReader(), decider.journal, decider.metrics
    verbs = VerbHandlers(decider, bodies)
    app = web.Application(middlewares=[_observe_requests(metrics)])

    def report(binding: BindingArgs, error: ApiError) -> None:
        """Reports a failed bind of a pod that this replica decided on; the type of others is not known here."""
        if bind_failures and (entry := journal.get(binding.namespace, binding.name)):
            bind_failures.report(binding.node, binding.uid, pod_type_of(entry.pod), error)

    table: dict[str, Handler] = {"filter": verbs.filter, "prioritize": verbs.prioritize, "preempt": verbs.preempt}
    if api:
        binder = BindHandler(api, bodies, report)
        app.cleanup_ctx.append(binder.client_session)
        table["bind"] = binder.bind
    for verb, handler in table.items():
        app.add_routes([web.post(f"/{verb}", handler, name=verb), web.post(f"/scheduler/{verb}", handler)])
    app.router.add_post(KUBERL_PRIORITIZE, verbs.prioritize)
    sources, workers, dead_links = decider.sources, decider.workers, DeadLinkFinder()
    metrics.add_collector(lambda: shown.state_metrics(sources.state.current, sources.clock()))
    metrics.add_collector(lambda: dead_links.families(sources.state.current, sources.clock()))
    metrics.add_collector(lambda: reward_metrics(sources.current_inputs()))
    metrics.add_collector(lambda: shown.journal_metrics(len(journal), journal.held_bytes, workers.overdue))
    return app


def create_ops_app(
    readiness: HealthCheck, metrics: ExtenderMetrics, workers: WorkerPool, draining: Callable[[], bool] = lambda: False
) -> web.Application:
    """Builds the operators' application: /metrics, /healthz and /readyz.

    /healthz: 200 while some worker thread is free. A restart mends nothing else, least of all an absent etcd.
    /readyz: `readiness`, until the extender drains.
    """

    def healthz() -> Health:
        return good_unless("all worker threads are past their deadline" if workers.exhausted else "")

    def readyz() -> Health:
        return Health(False, "draining") if draining() else readiness()

    return http_server.create_ops_app(metrics.registry, healthz, readyz)


def _observe_requests(metrics: ExtenderMetrics) -> Middleware:
    """Counts and times every response, and turns errors of the client into responses."""

    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.perf_counter()
        try:
            response = await handler(request)
        except BadRequest as error:
            response = _error_response(400, str(error))
        except RequestRefused as error:
            response = _error_response(error.status, str(error))
        except web.HTTPException as error:
            response = _error_response(error.status, error.reason, error.headers.get("Allow"))
        except Exception:
            metrics.observe_request(_verb(request), 500, time.perf_counter() - began)
            raise
        metrics.observe_request(_verb(request), response.status, time.perf_counter() - began)
        return response

    return observe


def _error_response(status: int, text: str, allow: str | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Allow": allow} if allow else None)


def _verb(request: web.Request) -> str:
    """Returns the route's last path segment; "other" for a path that is not served."""
    resource = request.match_info.route.resource
    if resource is None:
        return "other"
    return "prioritize" if resource.canonical == KUBERL_PRIORITIZE else resource.canonical.rpartition("/")[2]


# When a replica takes its share of the requests: once its view is there, or is known not to come.

FAILED_LISTING_GRACE_SECONDS = 15.0
"""A source whose listing fails is not waited for longer than this from the start. Room for two attempts at their
slowest (3 s for a call that hangs, a pause of 4 s), and as long as reports count: a replica that runs is neutral too by
then."""

SLOW_LISTING_GRACE_SECONDS = 120.0
"""Nothing is waited for longer than this from the start. 5,000 nodes are listed from etcd in 1 s; a rollout that makes
no progress for 600 s has failed (progressDeadlineSeconds)."""


REPORTS_GRACE_SECONDS = 15.0
"""No node's report is waited for longer than this from the start: intervals of large clusters are longer."""


class Readiness:
    """Decides whether this replica is ready, for /readyz.

    sources: what is shown of it → the source.
    started_at: monotonic seconds.
    unconfirmed: says at a time how many nodes are to report once more before what was listed of them counts.

    A replica that has become ready stays ready: without a source its answers are neutral, not wrong, and if all
    replicas lost etcd and were not ready, kube-scheduler would have nobody to ask.
    """

    def __init__(
        self, sources: Mapping[str, ListedSource], started_at: float, unconfirmed: Callable[[float], int] = lambda _: 0
    ) -> None:
        self._sources, self._started_at, self._unconfirmed = sources, started_at, unconfirmed
        self._is_ready = False

    def check(self, now: float) -> Health:
        """Tells whether the replica is ready: once nothing is waited for. The text names what is not listed, or was and
        is not followed now."""
        missing = {name: one for name, one in self._sources.items() if not one.loaded.is_set()}
        age_seconds = now - self._started_at
        waits = any(
            age_seconds < (FAILED_LISTING_GRACE_SECONDS if one.problem.text else SLOW_LISTING_GRACE_SECONDS)
            for one in missing.values()
        )
        if waits and not self._is_ready:
            return Health(False, f"waits for the first listing of {_named(missing)}")
        if not self._is_ready and age_seconds < REPORTS_GRACE_SECONDS and (nodes := self._unconfirmed(now)):
            return Health(False, f"waits for each node's next report ({nodes} missing)")
        if missing and not self._is_ready:
            _log.warning("this replica is ready, but decides without news of %s", _named(missing))
        self._is_ready = True
        blind = missing | {name: one for name, one in self._sources.items() if one.problem.text}
        return Health(True, f"ok; decides without news of {_named(blind)}" if blind else "ok")


def _named(sources: Mapping[str, ListedSource]) -> str:
    return "; ".join(f"{name} ({one.problem.text or 'no error so far'})" for name, one in sources.items())
