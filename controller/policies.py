"""Tells people about telemetry policies: each policy's status, and pods whose policy is missing or refused.

What a status says is decided in `taspolicy`. A pod without its policy is scheduled like
one that names none; nothing but its Event would show that to its owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from msgspec import Struct
from prometheus_client.core import Metric

from controller.keeper import Keeper, Tools
from leadsman.decision.inputs import DecisionInputs, TasPolicies
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_KIND,
    TASPOLICY_VERSION,
    PolicyKey,
    build_status,
)
from leadsman.decision.telemetry.telemetry_plugins import reporting_nodes
from leadsman.kube.errors import NotFound
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.runtime.scrape import gauge
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.telemetry.telemetry_sources import TASPOLICY_RESOURCE, TasPolicyObject

REWRITE_INTERVAL_SECONDS = 60.0
"""The same status is written once in this time: a CRD may prune it, or another controller may overwrite it."""

FIRST_VALUES_SECONDS = 30.0
"""A controller that has just started has read few nodes' reports, and no other source of metrics."""

GRACE_SECONDS = 5.0
"""One `kubectl apply` may bring a pod before its policy."""


class PolicyStatusWriter(Keeper):
    """Writes the status of policies where it differs, and an Event when a policy is refused."""

    name = "write status of policies"
    problem_texts = (
        f"controller cannot write the status of a policy; it tries again after {REWRITE_INTERVAL_SECONDS:g} s",
        "controller writes the status of policies again",
    )

    def __init__(self, tools: Tools, objects: Callable[[], Mapping[ObjectKey, TasPolicyObject]]) -> None:
        super().__init__(tools)
        self._objects, self._started_at = objects, tools.clock()
        self._written_at: dict[PolicyKey, tuple[str, float]] = {}

    async def keep(self) -> None:
        """Writes one status after another, as policies are few. When one fails, the others wait a turn."""
        if self.tools.is_dry_run:
            return
        policies, inputs = list(self._objects().values()), self.tools.inputs()
        self._written_at = {each.key: at for each in policies if (at := self._written_at.get(each.key))}
        for policy in policies:
            status = self._changed_status(policy, inputs)
            if status is not None:
                await self._update(policy, status)

    def _changed_status(self, policy: TasPolicyObject, inputs: DecisionInputs) -> dict[str, Any] | None:
        """None when the object has this status already, or the policy or its metrics may not have been read yet."""
        policies = inputs.telemetry.policies
        used, refused = policies.used.get(policy.key), policies.refused.get(policy.key)
        if used is None and refused is None:
            return None
        now = f"{datetime.fromtimestamp(self.tools.wall_clock(), UTC):%Y-%m-%dT%H:%M:%SZ}"
        current = policy.status.value if isinstance(policy.status.value, Mapping) else {}
        unreported = sorted(each for each in used.metrics if not reporting_nodes(each, inputs)) if used else []
        if unreported and current and self.tools.clock() - self._started_at < FIRST_VALUES_SECONDS:
            return None
        status = build_status(used, refused, current, now, unreported)
        # An empty field may be absent.
        same = all(current.get(key, None if value else value) == value for key, value in status.items())
        return None if same else status

    async def _update(self, policy: TasPolicyObject, status: dict[str, Any]) -> None:
        accepted = status["conditions"][0]
        last_messages, at = self._written_at.get(policy.key, ("", 0.0))
        messages = f"{accepted['status']} {accepted['message']} {status['conditions'][1]['message']}"
        if messages == last_messages and self.tools.clock() - at < REWRITE_INTERVAL_SECONDS:
            return
        self._written_at[policy.key] = messages, self.tools.clock()
        path = TASPOLICY_RESOURCE.path(policy.metadata.namespace, policy.metadata.name, "status")
        try:
            await self.tools.client.patch(path, {"status": status})
        except NotFound:
            return
        if accepted["status"] == "False" and messages != last_messages:
            about = ObjectReference(
                TASPOLICY_KIND, policy.metadata.namespace, policy.metadata.name, policy.metadata.uid
            )
            api = f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}"
            self.tools.tell(about, "PolicyRefused", accepted["message"], "Accept", warning=True, api_version=api)


class PolicyReference(Struct, frozen=True):
    """A pod that names a policy. refused: the policy exists, and no version of it can be used."""

    namespace: str
    pod: str
    uid: str
    policy: str
    refused: bool = False

    @property
    def event_name(self) -> str:
        """Names the Event, alike on every replica: the API server refuses a second Event of this name."""
        identity = f"{self.uid} {self.policy}{' refused' * self.refused}"
        digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        return f"{self.pod[:200].rstrip('.-')}.{digest}"


class MissingPolicyReporter(Keeper):
    """Records an Event for each reference to a policy that stays missing or refused, and counts them.

    pods: unfinished ones with the label.
    rate: of Events; the others wait.
    """

    name = "report missing policies"

    def __init__(
        self,
        tools: Tools,
        pods: Reflector[PartialObjectMetadata],
        policies: Callable[[], TasPolicies],
        rate: TokenBucket,
    ) -> None:
        super().__init__(tools, [pods])
        self._pods, self._policies, self._rate = pods, policies, rate
        self._since: Mapping[PolicyReference, float] = {}
        self._reported: set[PolicyReference] = set()

    async def keep(self) -> None:
        """Tells of missing policies; before the policies are listed, none counts as missing."""
        policies = self._policies()
        if not policies.loaded:
            return
        now, missing = self.tools.clock(), dict.fromkeys(_missing_references(self._pods.current.values(), policies))
        self._since = {reference: self._since.get(reference, now) for reference in missing}
        self._reported &= missing.keys()
        for reference, since in self._since.items():
            if now - since >= GRACE_SECONDS and reference not in self._reported:
                if not self._rate.try_take():
                    return
                self._report(reference)

    def forget(self) -> None:
        self._since, self._reported = {}, set()

    def families(self) -> Iterator[Metric]:
        refused = sum(reference.refused for reference in self._since)
        yield gauge(
            "leadsman_controller_missing_policies",
            "Pods that name a telemetry policy which does not exist.",
            len(self._since) - refused,
        )
        yield gauge(
            "leadsman_controller_refused_policies",
            "Pods that name a telemetry policy of which no version can be used.",
            refused,
        )

    def _report(self, reference: PolicyReference) -> None:
        self._reported.add(reference)
        about = ObjectReference("Pod", reference.namespace, reference.pod, reference.uid)
        state, remedy = _REFUSED if reference.refused else _MISSING
        note = (
            f"label {POLICY_LABEL} names TASPolicy {reference.namespace}/{reference.policy}, {state};"
            f" the pod is scheduled without a policy; {remedy}"
        )
        reason = "TelemetryPolicyRefused" if reference.refused else "TelemetryPolicyMissing"
        self.tools.tell(about, reason, note, "Schedule", warning=True, name=reference.event_name)


_MISSING = "which does not exist", "create the policy or correct the label"
_REFUSED = "of which no version can be used", "correct the policy; its status names the field"


def _missing_references(pods: Iterable[PartialObjectMetadata], policies: TasPolicies) -> Iterator[PolicyReference]:
    """Returns those to a policy of which no version is in use. One whose last good version is in use has its policy."""
    for pod in (each.metadata for each in pods):
        policy = pod.labels.get(POLICY_LABEL, "")
        key = PolicyKey(pod.namespace, policy)
        if policy and not pod.deletion_timestamp and key not in policies.used:
            yield PolicyReference(pod.namespace, pod.name, pod.uid, policy, key in policies.refused)
