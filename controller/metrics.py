"""The controller's metrics, health and last plan over HTTP. A scrape reads memory only."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from controller.label_reconciler import LabelReconciler
from controller.node_patcher import NodePatcher
from controller.requeuer import Requeuer
from leadsman.kube.leader_election import LeaderElector
from leadsman.planning.labels.model import LabelPlan
from leadsman.runtime.ops_server import Health, create_ops_app, good_unless


def plan_metrics(reconciler: LabelReconciler, requeuer: Requeuer) -> Iterator[Metric]:
    """Metrics of what is planned."""
    yield GaugeMetricFamily(
        "leadsman_controller_plan_seconds",
        "Seconds that making the last label plan took.",
        reconciler.plan_seconds,
    )
    yield GaugeMetricFamily(
        "leadsman_controller_wakeup_seconds",
        "Seconds that filtering for refused pods took last.",
        requeuer.sync_seconds,
    )
    yield CounterMetricFamily(
        "leadsman_controller_wakeups", "Nodes annotated so that refused pods are retried.", requeuer.touched
    )
    if plan := reconciler.plan:
        yield GaugeMetricFamily(
            "leadsman_controller_planned_actions", "Actions in the last label plan.", len(plan.actions)
        )
        yield GaugeMetricFamily(
            "leadsman_controller_withheld_actions", "Actions that limits withhold now.", len(plan.withheld)
        )
        yield GaugeMetricFamily(
            "leadsman_controller_stopped", "Reasons why policies change nothing now.", len(plan.stopped)
        )


def write_metrics(
    patcher: NodePatcher | None, recorder: EventRecorder | None, elector: LeaderElector | None
) -> Iterator[Metric]:
    """Metrics of what is written; a dry run has none of the three."""
    if elector:
        yield GaugeMetricFamily(
            "leadsman_controller_leader",
            "1 while this replica holds the Lease and acts, else 0.",
            float(elector.is_leader),
        )
    if patcher:
        patches = CounterMetricFamily("leadsman_controller_patches", "Patches of nodes, by result.", labels=["result"])
        for result, count in patcher.results.items():
            patches.add_metric([result], count)
        yield patches
    if recorder:
        yield CounterMetricFamily("leadsman_controller_events", "Events that the controller wrote.", recorder.written)
        yield CounterMetricFamily(
            "leadsman_controller_events_dropped",
            "Events not written: the queue was full, or the API server refused them.",
            recorder.dropped,
        )


def create_app(
    registry: CollectorRegistry,
    reconciler: LabelReconciler,
    pages: Mapping[str, Callable[[], dict[str, Any]]],
    not_ready_reasons: Callable[[], list[str]],
    stalled_loops: Callable[[], list[str]],
) -> web.Application:
    """Builds the application: /metrics, /healthz (no loop is stalled), /readyz (what plans need is listed), /plan.

    pages: name → further parts of /plan.
    """

    def healthz() -> Health:
        stalled = stalled_loops()
        return good_unless(f"stalled: {', '.join(stalled)}" if stalled else "")

    def readyz() -> Health:
        return good_unless("\n".join(not_ready_reasons()))

    async def plan(_: web.Request) -> web.Response:
        others = {name: page() for name, page in pages.items()}
        body = msgspec.json.format(msgspec.json.encode(plan_json(reconciler.plan) | others)).decode()
        return web.json_response(text=body + "\n")

    app = create_ops_app(registry, healthz, readyz)
    app.router.add_get("/plan", plan)
    return app


def plan_json(plan: LabelPlan | None) -> dict[str, Any]:
    """The last plan as JSON values."""
    if plan is None:
        return {"none": "this replica has no plan: another one leads, or none is made yet"}
    withheld = [{**msgspec.to_builtins(each.action), "why": each.why} for each in plan.withheld]
    return {"actions": msgspec.to_builtins(plan.actions), "withheld": withheld, "stopped": list(plan.stopped)}
