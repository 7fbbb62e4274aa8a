"""Keeps pods off unhealthy devices: reads their health, plans, and writes DeviceTaintRules, or labels of nodes.

Everything it knows of marks is read from the cluster, so another leader goes on where this one stopped.
"""

import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Self

from msgspec import Struct, structs
from prometheus_client.core import Metric

from controller.keeper import Actions, Keeper, NodeCache, Tools
from leadsman.cluster.devices.node_devices import DraDevice
from leadsman.decision.policy import DeviceHealthPolicy
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNHEALTHY_DEVICE_LABEL, UNHEALTHY_DEVICES_KEY, UNHEALTHY_TAINT_KEY
from leadsman.kube.object_changes import ObjectChange
from leadsman.kube.objects import ObjectMeta, ObjectReference, PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import DEVICE_TAINT_RULES, NODES, RESOURCE_SLICES
from leadsman.planning.device_health_plan import (
    DeviceAction,
    DeviceHealthPlan,
    DeviceMemory,
    MarkNode,
    ObservedDevices,
    RemoveTaint,
    SetTaint,
    TaintRule,
    plan_device_health,
)
from leadsman.runtime.scrape import counter, gauge
from leadsman.sources.cluster.device_objects import ResourceSliceObject
from leadsman.sources.telemetry.device_metrics import DeviceMetricPoller, devices_by_uuid
from leadsman.sources.telemetry.polling import PrometheusSource
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings

log = logging.getLogger(__name__)

MAX_WRITES = 10
"""One turn, of a second, writes this many rules: a policy that changes the effect changes many rules."""


class _Taint(Struct, frozen=True):
    key: str = ""
    effect: str = ""


class _Selector(Struct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""


class _RuleSpec(Struct, frozen=True, rename="camel"):
    taint: _Taint = _Taint()
    device_selector: _Selector | None = None


class TaintRuleObject(Struct, frozen=True):
    """A DeviceTaintRule as the API server sends it."""

    metadata: ObjectMeta
    spec: _RuleSpec = _RuleSpec()


class TaintRuleClient:
    """Follows our DeviceTaintRules, where the API server has them, and writes them.

    is_ready: whether ours are listed, or the API server is known to have none: unhealthy devices are then marked by a
        label on their nodes (docs/devices.md says which feature gates the rules need).
    rules: ours; None: the API server has no such rules.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        options = ListOptions(DEVICE_TAINT_RULES, label_selector=UNHEALTHY_DEVICE_LABEL)
        self.reflector = Reflector(client, options, TaintRuleObject)

    @property
    def is_ready(self) -> bool:
        return not self.reflector.is_served or self.reflector.loaded.is_set()

    @property
    def rules(self) -> Sequence[TaintRule] | None:
        if not self.reflector.is_served:
            return None
        rules = map(_rule, self.reflector.current.values())
        return [rule for rule in rules if rule is not None]

    async def write(self, action: SetTaint | RemoveTaint) -> bool:
        """Writes a rule, and tells whether it was done. ApiError; raises Conflict: the rule has changed since it was
        seen."""
        rule = action.rule
        try:
            if rule is None:
                assert isinstance(action, SetTaint), "only a rule that is there is removed"
                await self._client.create(DEVICE_TAINT_RULES.path(), rule_body(action))
            elif isinstance(action, SetTaint):
                # Of the very rule that was seen. The API server sets the time of the change.
                version, spec = {"resourceVersion": rule.resource_version}, {"taint": {"effect": action.effect.value}}
                body = {"metadata": version, "spec": spec}
                await self._client.patch(DEVICE_TAINT_RULES.path(name=rule.name), body)
            else:
                await self._client.delete(DEVICE_TAINT_RULES.path(name=rule.name), rule.uid)
        except NotFound:
            return False
        return True


def rule_body(action: SetTaint) -> dict[str, Any]:
    """Makes the rule that taints one device. All three parts are set: an empty selector is that of all devices. A
    device's rule always has the same name, so that two controllers cannot write two rules for it."""
    target, labels = action.target, {UNHEALTHY_DEVICE_LABEL: action.uuid, "app.kubernetes.io/part-of": "leadsman"}
    text = "\n".join((target.driver, target.pool, target.device))
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": DEVICE_TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"leadsman-{digest}", "labels": labels},
        "spec": {
            "deviceSelector": {"driver": target.driver, "pool": target.pool, "device": target.device},
            "taint": {"key": UNHEALTHY_TAINT_KEY, "value": action.code, "effect": action.effect.value},
        },
    }


def _rule(each: TaintRuleObject) -> TaintRule | None:
    """Reads a rule; None for one that somebody has changed to match more than a device."""
    selector, meta = each.spec.device_selector, each.metadata
    if selector is None or each.spec.taint.key != UNHEALTHY_TAINT_KEY:
        return None
    try:
        target = DraDevice(selector.driver, selector.pool, selector.device)
    except ValueError:
        return None
    uuid = meta.labels.get(UNHEALTHY_DEVICE_LABEL, "")
    return TaintRule(meta.name, meta.uid, meta.resource_version, uuid, target, each.spec.taint.effect)


class DeviceHealthKeeper(Keeper):
    """Plans and writes taints of devices; `async with` it while it runs.

    tools: of a dry run where devices are only to be judged.
    policy: of the moment.
    plan: the last one; None before the first and while another replica leads.
    """

    name = "keep device health"

    def __init__(
        self, tools: Tools, telemetry: TelemetrySettings, nodes: NodeCache, policy: Callable[[], DeviceHealthPolicy]
    ) -> None:
        if telemetry.prometheus is None:
            raise ValueError(
                "--device-health reads what dcgm-exporter says of each device from Prometheus; write --telemetry "
                "prometheus=http://HOST:PORT, after other sources if there are any"
            )
        super().__init__(tools, [nodes.watched])
        self.plan: DeviceHealthPlan | None = None
        self._nodes, self._policy, self._memory = nodes, policy, DeviceMemory()
        self._prometheus = ApiClient(telemetry.prometheus)
        source = PrometheusSource(self._prometheus, telemetry.queries)
        interval = telemetry.poll_interval_seconds
        self.metrics = DeviceMetricPoller(source, telemetry.queries.node_label, interval, tools.clock)
        self.rules = TaintRuleClient(tools.client)
        slices = ListOptions(RESOURCE_SLICES)
        self.slices = Reflector(tools.client, slices, ResourceSliceObject, on_changes=self._slices_changed)
        self._published: Mapping[str, Sequence[DraDevice]] | None = None
        self._shown: tuple[str, ...] = ()
        self._actions = Actions(
            log,
            "controller cannot mark unhealthy devices; it tries again (is the component device-health installed?)",
            "controller marks unhealthy devices again",
        )

    async def __aenter__(self) -> Self:
        await self._prometheus.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._prometheus.close()

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {
            "poll the health of devices": self.metrics.run(),
            "watch device taint rules": self.rules.reflector.run(),
            "watch published devices": self.slices.run(),
        }

    def forget(self) -> None:
        self.plan, self._memory = None, DeviceMemory()

    async def keep(self) -> None:
        seen = self._seen()
        if seen is None:
            return
        before, now = self._memory, self.tools.clock()
        self.plan = plan = plan_device_health(seen, self._policy(), before, now)
        self._memory = plan.memory
        if self.tools.is_dry_run:  # nothing was marked, so the next mark need not wait for this one
            self._memory = structs.replace(plan.memory, marked_at=before.marked_at)
            self._show(plan)
        else:
            await self._actions.carry_out(plan.actions[:MAX_WRITES], self._write)

    def _seen(self) -> ObservedDevices | None:
        """Returns what is seen of devices; None until marks and devices are listed. Where ResourceSlices are not
        served, no driver publishes any."""
        if not self.rules.is_ready or (self.slices.is_served and not self.slices.loaded.is_set()):
            return None
        if self._published is None:
            self._published = devices_by_uuid(self.slices.current.values())
        return ObservedDevices(
            self.metrics.current,
            self._published if self.slices.is_served else {},
            self.rules.rules,
            {name: _marked_devices(node) for name, node in self._nodes.current.items()},
        )

    def _slices_changed(self, _: Sequence[ObjectChange[ResourceSliceObject]]) -> None:
        self._published = None

    async def _write(self, action: DeviceAction) -> str:
        """Plans again what has changed since it was seen."""
        if isinstance(action, MarkNode):
            await self._mark(action)
        elif not await self.rules.write(action):
            return "changed"
        log.info("%s", describe(action))
        if action.node:
            heals = isinstance(action, RemoveTaint) or (isinstance(action, MarkNode) and not action.uuids)
            about = ObjectReference("Node", "", action.node, self._nodes.uid(action.node))
            reason = "DeviceHealthy" if heals else "DeviceUnhealthy"
            self.tools.tell(about, reason, describe(action), "Taint", warning=not heals)
        return "done"

    async def _mark(self, action: MarkNode) -> None:
        node = self._nodes.current.get(action.node)
        if node is None:
            raise NotFound(f"node {action.node} is gone")
        names = ",".join(sorted(action.uuids))
        body = {
            "metadata": {
                "resourceVersion": node.metadata.resource_version,
                "labels": {UNHEALTHY_DEVICES_KEY: str(len(action.uuids)) if names else None},
                "annotations": {UNHEALTHY_DEVICES_KEY: names or None},
            }
        }
        response = await self.tools.client.patch(NODES.path("", action.node), body, kind=PartialObjectMetadata)
        self._nodes.record_patch(action.node, response)

    def _show(self, plan: DeviceHealthPlan) -> None:
        """Logs what a dry run would do, when it differs from the last time."""
        lines = tuple(describe(action) for action in plan.actions[:MAX_WRITES])
        for line in lines if lines != self._shown else ():
            log.info("dry run, not done: %s", line)
        self._shown = lines

    def page(self) -> Mapping[str, Any]:
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
        plan = self.plan
        devices = plan.memory.devices.values() if plan else ()
        yield gauge(
            "leadsman_device_health_devices",
            "Devices whose health is measured, that are faulty now, that are marked, and whose mark a limit withholds.",
            {
                "measured": len(self.metrics.current),
                "faulty": sum(each.faulty_since is not None for each in devices),
                "marked": len(plan.marked) if plan else 0,
                "withheld": len(plan.withheld) if plan else 0,
            },
            "state",
        )
        yield counter(
            "leadsman_device_health_writes",
            "Marks on devices that were set, changed or removed, by what and result.",
            self._actions.results,
            "action",
            "result",
        )


def describe(action: DeviceAction) -> str:
    """Describes an action for the log, Events and people."""
    if isinstance(action, MarkNode):
        label = f"{UNHEALTHY_DEVICES_KEY}={len(action.uuids)}" if action.uuids else f"no {UNHEALTHY_DEVICES_KEY}"
        return f"node {action.node} labelled {label}: {action.reason}"
    if isinstance(action, RemoveTaint):
        return f"taint of device {action.rule.target.device} ({action.rule.uuid}) removed: {action.reason}"
    at = f" of node {action.node}" if action.node else ""
    return f"device {action.target.device}{at} ({action.uuid}) tainted with effect {action.effect}: {action.reason}"


def _marked_devices(node: PartialObjectMetadata) -> frozenset[str]:
    """Returns the devices that its annotation names; none without the label, which may have been removed by hand."""
    meta = node.metadata
    if UNHEALTHY_DEVICES_KEY not in meta.labels:
        return frozenset()
    return frozenset(filter(None, meta.annotations.get(UNHEALTHY_DEVICES_KEY, "").split(",")))
