"""Keeps pods off sick devices: reads their health, plans, and writes DeviceTaintRules, or labels of nodes.

Everything it knows of marks is read from the cluster, so another leader goes on where this one stopped.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Self

from msgspec import structs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from controller.node_cache import NodeCache
from controller.taint_rules import TaintRuleClient
from leadsman.cluster.devices.monitored import DraDevice
from leadsman.decision.policy import DeviceHealthPolicy
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotFound, NotLeader
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNHEALTHY_DEVICES_KEY
from leadsman.kube.object_changes import ObjectChange
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES, RESOURCE_SLICES
from leadsman.planning.device_health.model import (
    DeviceAction,
    DeviceHealthPlan,
    DeviceMemory,
    MarkNode,
    ObservedDevices,
    RemoveTaint,
)
from leadsman.planning.device_health.planner import plan_device_health
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.cluster.published_devices import PublishedSlice, devices_by_uuid
from leadsman.sources.telemetry.device_metrics import DeviceMetricPoller
from leadsman.sources.telemetry.prometheus import PrometheusSource
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings

log = logging.getLogger(__name__)

MAX_WRITES = 10
"""In one turn, a second: a policy that changes the effect changes many rules."""


class DeviceHealthMode(StrEnum):
    """off: devices are not judged. dry-run: what would be done is logged and shown at /plan. act: it is done."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ACT = "act"


class DeviceHealthKeeper:
    """`async with` it, run its `loops`, and call `keep_device_health` in turn.

    client: one that writes only while this replica leads.
    recorder: None: a dry run, which writes nothing.
    policy: of the moment.
    plan: the last one; None before the first and while another replica leads.
    results: done, changed or failed → writes.
    """

    def __init__(
        self,
        client: ApiClient,
        telemetry: TelemetrySettings,
        nodes: NodeCache,
        policy: Callable[[], DeviceHealthPolicy],
        recorder: EventRecorder | None,
        is_leader: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if telemetry.prometheus is None:
            raise ValueError(
                "--device-health reads what dcgm-exporter says of each device from Prometheus; write --telemetry "
                "prometheus=http://HOST:PORT, after other sources if there are any"
            )
        self.plan: DeviceHealthPlan | None = None
        self.results: Counter[str] = Counter()
        self._client, self._nodes, self._policy, self._recorder = client, nodes, policy, recorder
        self._is_leader, self._clock, self._memory = is_leader, clock, DeviceMemory()
        self._prometheus = ApiClient(telemetry.prometheus)
        source = PrometheusSource(self._prometheus, telemetry.queries)
        self.metrics = DeviceMetricPoller(source, telemetry.queries.node_label, telemetry.poll_interval_seconds, clock)
        self.rules = TaintRuleClient(client)
        self.slices = Reflector(client, ListOptions(RESOURCE_SLICES), PublishedSlice, on_changes=self._slices_changed)
        self._published: Mapping[str, Sequence[DraDevice]] | None = None
        self._shown: tuple[str, ...] = ()
        self._problem = ProblemLog(
            log,
            "controller cannot mark unhealthy devices; it tries again (is the component device-health installed?)",
            "controller marks unhealthy devices again",
        )

    async def __aenter__(self) -> Self:
        await self._prometheus.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._prometheus.close()

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Name and loop of each task; all run until cancelled."""
        return {
            "poll the health of devices": self.metrics.run(),
            "watch device taint rules": self.rules.run(),
            "watch published devices": self.slices.run(),
        }

    async def keep_device_health(self) -> None:
        """Plans, and does what is due. What fails is done in a later turn."""
        if not self._is_leader():
            self.plan, self._memory = None, DeviceMemory()
            return
        seen = self._seen()
        if seen is None:
            return
        before, self.plan = self._memory, plan_device_health(seen, self._policy(), self._memory, self._clock())
        self._memory = self.plan.memory
        if self._recorder is not None:
            await self._act(self.plan.actions[:MAX_WRITES], self._recorder)
        else:  # nothing was marked, so the next mark need not wait for this one
            self._memory = structs.replace(self.plan.memory, marked_at=before.marked_at)
            self._show(self.plan)

    def _seen(self) -> ObservedDevices | None:
        """None until marks and devices are listed. Where ResourceSlices are not served, no driver publishes any."""
        if not self.rules.is_ready or (self.slices.is_served and not self.slices.loaded.is_set()):
            return None
        if self._published is None:
            self._published = devices_by_uuid(self.slices.current.values())
        return ObservedDevices(
            self.metrics.current,
            self._published if self.slices.is_served else {},
            self.rules.rules,
            {name: _marked_devices(node) for name, node in self._nodes.current.items()},
            self.rules.offers_no_effect,
        )

    def _slices_changed(self, _: Sequence[ObjectChange[PublishedSlice]]) -> None:
        self._published = None

    async def _act(self, actions: Sequence[DeviceAction], recorder: EventRecorder) -> None:
        try:
            for action in actions:
                if await self._write(action):
                    self.results["done"] += 1
                    log.info("%s", describe(action))
                    self._record(action, recorder)
        except NotLeader:
            return
        except ApiError as error:
            self.results["failed"] += 1
            self._problem.report(error)
        else:
            self._problem.clear()

    async def _write(self, action: DeviceAction) -> bool:
        """Whether it was done. What has changed since it was seen is planned again."""
        try:
            if isinstance(action, MarkNode):
                await self._mark(action)
                return True
            return await self.rules.write(action)
        except (Conflict, NotFound):
            self.results["changed"] += 1
            return False

    async def _mark(self, action: MarkNode) -> None:
        node, names = self._nodes.current[action.node], ",".join(sorted(action.uuids))
        body = {
            "metadata": {
                "resourceVersion": node.metadata.resource_version,
                "labels": {UNHEALTHY_DEVICES_KEY: str(len(action.uuids)) if names else None},
                "annotations": {UNHEALTHY_DEVICES_KEY: names or None},
            }
        }
        response = await self._client.patch(NODES.path("", action.node), body, kind=PartialObjectMetadata)
        self._nodes.record_patch(action.node, response)

    def _record(self, action: DeviceAction, recorder: EventRecorder) -> None:
        if not action.node:
            return
        heals = isinstance(action, RemoveTaint) or (isinstance(action, MarkNode) and not action.uuids)
        about = ObjectReference("Node", "", action.node, self._nodes.uid(action.node))
        reason = "DeviceHealthy" if heals else "DeviceUnhealthy"
        recorder.record(about, reason, describe(action), "Taint", warning=not heals)

    def _show(self, plan: DeviceHealthPlan) -> None:
        """Logs what a dry run would do, when it differs from the last time."""
        lines = tuple(describe(action) for action in plan.actions[:MAX_WRITES])
        for line in lines if lines != self._shown else ():
            log.info("dry run: would have: %s", line)
        self._shown = lines

    def page(self) -> dict[str, Any]:
        """The last plan as JSON values."""
        if self.plan is None:
            return {"none": "this replica has no plan: another one leads, or marks and devices are not listed yet"}
        return {
            "problem": self.metrics.problem,
            "measured": len(self.metrics.current),
            "marked": sorted(self.plan.marked),
            "withheld": dict(self.plan.withheld),
            "actions": [describe(action) for action in self.plan.actions],
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        plan = self.plan
        counts = {
            "measured": len(self.metrics.current),
            "faulty": sum(each.faulty_since is not None for each in plan.memory.devices.values()) if plan else 0,
            "marked": len(plan.marked) if plan else 0,
            "withheld": len(plan.withheld) if plan else 0,
        }
        devices = GaugeMetricFamily(
            "leadsman_device_health_devices",
            "Devices whose health is measured, that are faulty now, that are marked, and whose mark a limit withholds.",
            labels=["state"],
        )
        for state, count in counts.items():
            devices.add_metric([state], count)
        yield devices
        writes = CounterMetricFamily(
            "leadsman_device_health_writes",
            "Marks on devices that were set, changed or removed, by result; changed: planned again.",
            labels=["result"],
        )
        for result in ("done", "changed", "failed"):
            writes.add_metric([result], self.results[result])
        yield writes


def describe(action: DeviceAction) -> str:
    """For the log, Events and people."""
    if isinstance(action, MarkNode):
        label = f"{UNHEALTHY_DEVICES_KEY}={len(action.uuids)}" if action.uuids else f"no {UNHEALTHY_DEVICES_KEY}"
        return f"node {action.node} labelled {label}: {action.reason}"
    if isinstance(action, RemoveTaint):
        return f"taint of device {action.rule.target.device} ({action.rule.uuid}) removed: {action.reason}"
    at = f" of node {action.node}" if action.node else ""
    return f"device {action.target.device}{at} ({action.uuid}) tainted with effect {action.effect}: {action.reason}"


def _marked_devices(node: PartialObjectMetadata) -> frozenset[str]:
    """None without the label, which may have been removed by hand."""
    meta = node.metadata
    if UNHEALTHY_DEVICES_KEY not in meta.labels:
        return frozenset()
    return frozenset(filter(None, meta.annotations.get(UNHEALTHY_DEVICES_KEY, "").split(",")))
