"""Reports pods whose telemetry policy does not exist or is refused, by one Event for each pod and policy.

Such a pod is scheduled like a pod without a policy; nothing else would show that to its owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from leadsman.decision.telemetry.model import TasPolicies
from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.kube.names import POLICY_LABEL
from leadsman.kube.objects import ObjectMeta, ObjectReference
from leadsman.runtime.token_bucket import TokenBucket

GRACE_SECONDS = 5.0
"""One `kubectl apply` may bring a pod before its policy."""


class PolicyReference(Struct, frozen=True):
    """A pod and the policy that it names. refused: the policy exists, and no version of it can be used."""

    namespace: str
    pod: str
    uid: str
    policy: str
    refused: bool = False

    @property
    def event_name(self) -> str:
        """The same on every replica: the API server refuses a second Event of this name."""
        identity = f"{self.uid} {self.policy}{' refused' * self.refused}"
        digest = blake2b(identity.encode(), digest_size=8).hexdigest()
        return f"{self.pod[:200].rstrip('.-')}.{digest}"


class MissingPolicyReporter:
    """Records an Event for each reference to a policy that stays missing or refused. Call `sync` in turn.

    rate: of Events; the others wait.
    clock: monotonic seconds.
    """

    def __init__(self, recorder: EventRecorder, rate: TokenBucket, clock: Callable[[], float]):
        self._recorder, self._rate, self._clock = recorder, rate, clock
        self._since: Mapping[PolicyReference, float] = {}
        self._reported: set[PolicyReference] = set()

    def sync(self, pods: Iterable[ObjectMeta], policies: TasPolicies) -> None:
        """pods: unfinished ones with the label. Before the policies are listed, none counts as missing."""
        if not policies.loaded:
            return
        now, missing = self._clock(), dict.fromkeys(_missing_references(pods, policies))
        self._since = {reference: self._since.get(reference, now) for reference in missing}
        self._reported &= missing.keys()
        for reference, since in self._since.items():
            if now - since >= GRACE_SECONDS and reference not in self._reported:
                if not self._rate.try_take():
                    return
                self._report(reference)

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self._since, self._reported = {}, set()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield GaugeMetricFamily(
            "leadsman_controller_missing_policies",
            "Pods that name a telemetry policy which does not exist.",
            sum(not reference.refused for reference in self._since),
        )
        yield GaugeMetricFamily(
            "leadsman_controller_refused_policies",
            "Pods that name a telemetry policy of which no version can be used.",
            sum(reference.refused for reference in self._since),
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
        self._recorder.record(about, reason, note, "Schedule", warning=True, name=reference.event_name)


_MISSING = "which does not exist", "create the policy or correct the label"
_REFUSED = "of which no version can be used", "correct the policy; its status names the field"


def _missing_references(pods: Iterable[ObjectMeta], policies: TasPolicies) -> Iterator[PolicyReference]:
    """Those to a policy of which no version is in use. One whose last good version is in use has its policy."""
    for pod in pods:
        policy = pod.labels.get(POLICY_LABEL, "")
        key = PolicyKey(pod.namespace, policy)
        if policy and not pod.deletion_timestamp and key not in policies.used:
            yield PolicyReference(pod.namespace, pod.name, pod.uid, policy, key in policies.refused)
