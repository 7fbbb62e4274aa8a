"""DeviceTaintRules on the API server: finds out which version it has, follows ours, and writes them."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from leadsman.cluster.devices.monitored import DraDevice
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, InvalidRequest, NotFound
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNHEALTHY_DEVICE_LABEL, UNHEALTHY_DEVICES_KEY, UNHEALTHY_TAINT_KEY
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import DEVICE_TAINT_RULES, Resource
from leadsman.planning.device_health.model import RemoveTaint, SetTaint, TaintEffect, TaintRule
from leadsman.sources.cluster.object_metadata import MetadataFields

log = logging.getLogger(__name__)

DISCOVERY_SECONDS = 300.0
"""Between two looks whether the API server has the rules by now; it is restarted to switch its gate on or off."""

DISCOVERY_RETRY_SECONDS = 5.0


class _ApiResource(Struct, frozen=True):
    name: str


class _ApiResources(Struct, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


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
    """A DeviceTaintRule."""

    metadata: MetadataFields
    spec: _RuleSpec = _RuleSpec()


class TaintRuleClient:
    """`run` it as one task.

    is_ready: whether it is known what the API server has.
    rules: ours; None: the API server has no such rules.
    offers_no_effect: whether the API server takes the effect None, as from Kubernetes 1.35 on; it is asked by a write.
    """

    def __init__(self, client: ApiClient) -> None:
        self.offers_no_effect = True
        self._client = client
        self._discovered = False
        self._resource: Resource | None = None
        self._reflector: Reflector[TaintRuleObject] | None = None

    @property
    def is_ready(self) -> bool:
        return self._discovered and (self._reflector is None or self._reflector.loaded.is_set())

    @property
    def rules(self) -> Sequence[TaintRule] | None:
        if self._reflector is None:
            return None
        rules = (_rule(each) for each in self._reflector.current.values())
        return [rule for rule in rules if rule is not None]

    async def run(self) -> None:
        """Follows until cancelled, and looks from time to time whether the API server has another version by now."""
        while True:
            try:
                await self._discover()
            except ApiError as error:
                log.warning("cannot see whether the API server has DeviceTaintRules; tries again: %s", error)
                await asyncio.sleep(DISCOVERY_RETRY_SECONDS)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DISCOVERY_SECONDS):
                    await (self._reflector.run() if self._reflector else asyncio.Event().wait())

    async def write(self, action: SetTaint | RemoveTaint) -> bool:
        """Whether it was done. ApiError; Conflict: the rule has changed since it was seen."""
        resource = self._resource
        if resource is None:
            return False
        try:
            if isinstance(action, RemoveTaint):
                await self._client.delete(resource.path(name=action.rule.name), action.rule.uid)
            elif action.rule is None:
                await self._client.create(resource.path(), rule_body(action, resource))
            else:
                await self._client.patch(resource.path(name=action.rule.name), effect_patch(action.rule, action.effect))
        except NotFound:
            return False
        except InvalidRequest as error:
            if not (isinstance(action, SetTaint) and action.effect is TaintEffect.NONE and "effect" in str(error)):
                raise
            log.info("the API server has no taint effect None; devices are tainted with the policy's effect at once")
            self.offers_no_effect = False
            return False
        return True

    async def _discover(self) -> None:
        found = None
        for resource in DEVICE_TAINT_RULES:
            if found is None and await self._has(resource):
                found = resource
        if not self._discovered or found != self._resource:
            if found is None:
                log.warning(
                    "the API server has no DeviceTaintRules: unhealthy devices are marked by the label %s on their "
                    "nodes; to have them tainted, switch on the feature gates DRADeviceTaints and DRADeviceTaintRules "
                    "and kube-apiserver's --runtime-config=resource.k8s.io/v1beta2=true",
                    UNHEALTHY_DEVICES_KEY,
                )
            self._reflector = None
            if found is not None:
                options = ListOptions(found, label_selector=UNHEALTHY_DEVICE_LABEL)
                self._reflector = Reflector(self._client, options, TaintRuleObject)
        self._discovered, self._resource = True, found

    async def _has(self, resource: Resource) -> bool:
        try:
            served = await self._client.get(f"/apis/{resource.api_version}", _ApiResources)
        except NotFound:
            return False
        return any(each.name == resource.plural for each in served.resources)


def rule_name(target: DraDevice) -> str:
    """The same for the same device, so that two controllers cannot write two."""
    text = "\n".join((target.driver, target.pool, target.device))
    return f"leadsman-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def rule_body(action: SetTaint, resource: Resource) -> dict[str, Any]:
    """The rule that taints one device. All three parts are set: an empty selector is that of all devices."""
    target, labels = action.target, {UNHEALTHY_DEVICE_LABEL: action.uuid, "app.kubernetes.io/part-of": "leadsman"}
    return {
        "apiVersion": resource.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": rule_name(target), "labels": labels},
        "spec": {
            "deviceSelector": {"driver": target.driver, "pool": target.pool, "device": target.device},
            "taint": {"key": UNHEALTHY_TAINT_KEY, "value": action.code, "effect": action.effect.value},
        },
    }


def effect_patch(rule: TaintRule, effect: TaintEffect) -> dict[str, Any]:
    """Changes the effect of the very rule that was seen. The API server sets the time of the change."""
    return {"metadata": {"resourceVersion": rule.resource_version}, "spec": {"taint": {"effect": effect.value}}}


def _rule(each: TaintRuleObject) -> TaintRule | None:
    """None for one that somebody has changed to match more than a device."""
    selector, meta = each.spec.device_selector, each.metadata
    if selector is None or each.spec.taint.key != UNHEALTHY_TAINT_KEY:
        return None
    try:
        target = DraDevice(selector.driver, selector.pool, selector.device)
    except ValueError:
        return None
    uuid = meta.labels.get(UNHEALTHY_DEVICE_LABEL, "")
    return TaintRule(meta.name, meta.uid, meta.resource_version, uuid, target, each.spec.taint.effect)
