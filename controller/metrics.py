"""The controller's own metrics and health. A scrape reads memory only."""

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
    """None: a dry run has no writer, no recorder and no election. more: families of what is followed."""

    def __init__(
        self,
        loop: LabelReconciler,
        waker: Requeuer,
        writer: NodePatcher | None,
        recorder: EventRecorder | None,
        election: LeaderElector | None,
        more: Callable[[], Iterator[Metric]] = lambda: iter(()),
    ):
        self._loop, self._waker, self._writer, self._source_metrics = loop, waker, writer, more
        self._recorder, self._election = recorder, election

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("leadsman_controller_plan_seconds", "Making the last plan.", self._loop.plan_seconds)
        yield GaugeMetricFamily(
            "leadsman_controller_wakeup_seconds", "Looking at waiting pods.", self._waker.sync_seconds
        )
        yield CounterMetricFamily("leadsman_controller_wakeups", "Nodes touched for refused pods.", self._waker.touched)
        if plan := self._loop.plan:
            yield GaugeMetricFamily("leadsman_controller_planned_actions", "In the last plan.", len(plan.actions))
            yield GaugeMetricFamily("leadsman_controller_withheld_actions", "Not made now.", len(plan.withheld))
            yield GaugeMetricFamily("leadsman_controller_stopped", "Why less is planned: reasons.", len(plan.stopped))
        yield from self._write_metrics()
        yield from self._source_metrics()

    def _write_metrics(self) -> Iterator[Metric]:
        if self._election:
            yield GaugeMetricFamily("leadsman_controller_leader", "1: this one acts.", float(self._election.is_leader))
        if self._writer:
            patches = CounterMetricFamily("leadsman_controller_patches", "Of nodes, by result.", labels=["result"])
            for result, count in self._writer.results.items():
                patches.add_metric([result], count)
            yield patches
        if self._recorder:
            yield CounterMetricFamily("leadsman_controller_events", "Written.", self._recorder.written)
            yield CounterMetricFamily("leadsman_controller_events_dropped", "Not written.", self._recorder.dropped)


def create_app(
    registry: CollectorRegistry,
    loop: LabelReconciler,
    troubles: Callable[[], list[str]],
    stalled: Callable[[], list[str]],
) -> web.Application:
    """/metrics, /healthz, /readyz, /plan. Healthy: the loop turns. Ready: what it needs is listed."""

    async def healthz(_: web.Request) -> web.Response:
        stuck = stalled()
        return web.Response(status=503 if stuck else 200, text=f"{', '.join(stuck)} stuck\n" if stuck else "ok\n")

    async def readyz(_: web.Request) -> web.Response:
        found = troubles()
        return web.Response(status=503 if found else 200, text="".join(f"{each}\n" for each in found) or "ok\n")

    async def plan(_: web.Request) -> web.Response:
        body = msgspec.json.format(msgspec.json.encode(plan_json(loop.plan))).decode()
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
        return {"none": "another replica leads, or nothing was planned yet"}
    withheld = [{**msgspec.to_builtins(each.action), "why": each.why} for each in plan.withheld]
    return {"actions": msgspec.to_builtins(plan.actions), "withheld": withheld, "stopped": list(plan.stopped)}
