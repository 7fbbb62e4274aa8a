"""The controller's metrics, health and last plan over HTTP. A scrape reads memory only."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.event_recorder import EventRecorder
from controller.label_reconciler import LabelReconciler
from controller.node_patcher import NodePatcher
from controller.requeuer import Requeuer
from leadsman.kube.leader_election import LeaderElector
from leadsman.planning.labels.model import LabelPlan


class ControllerCollector(Collector):
    """The metrics of a controller's parts; a dry run has no patcher, recorder and elector.

    families: metrics of the sources.
    """

    def __init__(
        self,
        reconciler: LabelReconciler,
        requeuer: Requeuer,
        patcher: NodePatcher | None,
        recorder: EventRecorder | None,
        elector: LeaderElector | None,
        families: Callable[[], Iterator[Metric]] = lambda: iter(()),
    ):
        self._reconciler, self._requeuer, self._patcher, self._families = reconciler, requeuer, patcher, families
        self._recorder, self._elector = recorder, elector

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "leadsman_controller_plan_seconds",
            "Seconds that making the last label plan took.",
            self._reconciler.plan_seconds,
        )
        yield GaugeMetricFamily(
            "leadsman_controller_wakeup_seconds",
            "Seconds that filtering for refused pods took last.",
            self._requeuer.sync_seconds,
        )
        yield CounterMetricFamily(
            "leadsman_controller_wakeups", "Nodes annotated so that refused pods are retried.", self._requeuer.touched
        )
        if plan := self._reconciler.plan:
            yield GaugeMetricFamily(
                "leadsman_controller_planned_actions", "Actions in the last label plan.", len(plan.actions)
            )
            yield GaugeMetricFamily(
                "leadsman_controller_withheld_actions", "Actions that limits withhold now.", len(plan.withheld)
            )
            yield GaugeMetricFamily(
                "leadsman_controller_stopped", "Reasons why policies change nothing now.", len(plan.stopped)
            )
        yield from self._write_metrics()
        yield from self._families()

    def _write_metrics(self) -> Iterator[Metric]:
        if self._elector:
            yield GaugeMetricFamily(
                "leadsman_controller_leader",
                "1 while this replica holds the Lease and acts, else 0.",
                float(self._elector.is_leader),
            )
        if self._patcher:
            patches = CounterMetricFamily(
                "leadsman_controller_patches", "Patches of nodes, by result.", labels=["result"]
            )
            for result, count in self._patcher.results.items():
                patches.add_metric([result], count)
            yield patches
        if self._recorder:
            yield CounterMetricFamily(
                "leadsman_controller_events", "Events that the controller wrote.", self._recorder.written
            )
            yield CounterMetricFamily(
                "leadsman_controller_events_dropped",
                "Events not written: the queue was full, or the API server refused them.",
                self._recorder.dropped,
            )


def create_app(
    registry: CollectorRegistry,
    reconciler: LabelReconciler,
    not_ready_reasons: Callable[[], list[str]],
    stalled_loops: Callable[[], list[str]],
) -> web.Application:
    """Builds the application: /metrics, /healthz (no loop is stalled), /readyz (what plans need is listed), /plan."""

    async def healthz(_: web.Request) -> web.Response:
        stalled = stalled_loops()
        return web.Response(
            status=503 if stalled else 200, text=f"stalled: {', '.join(stalled)}\n" if stalled else "ok\n"
        )

    async def readyz(_: web.Request) -> web.Response:
        reasons = not_ready_reasons()
        return web.Response(status=503 if reasons else 200, text="".join(f"{each}\n" for each in reasons) or "ok\n")

    async def plan(_: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(plan_json(reconciler.plan))).decode()
        return web.json_response(text=body + "\n")

    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(registry))
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/plan", plan)
    return app


def plan_json(plan: LabelPlan | None) -> dict[str, Any]:
    """The last plan as JSON values."""
    if plan is None:
        return {"none": "this replica has no plan: another one leads, or none is made yet"}
    withheld = [{**msgspec.to_builtins(each.action), "why": each.why} for each in plan.withheld]
    return {"actions": msgspec.to_builtins(plan.actions), "withheld": withheld, "stopped": list(plan.stopped)}
