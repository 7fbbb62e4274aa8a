"""Tells of pods that name a telemetry policy which does not exist: by an Event on the pod, once a pod and policy.

Such a pod is scheduled as one without a policy, which nothing else would show to its owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from leadsman.decision.telemetry.model import TasPolicies
from leadsman.decision.telemetry.pod_policy import POLICY_LABEL
from leadsman.decision.telemetry.taspolicy import PolicyKey
from leadsman.kube.objects import ObjectMeta, ObjectReference
from leadsman.runtime.token_bucket import TokenBucket

GRACE_SECONDS = 5.0
"""One `kubectl apply` may bring a pod before its policy."""


class PolicyReference(Struct, frozen=True):
    """A pod and the policy that it names."""

    namespace: str
    pod: str
    uid: str
    policy: str

    @property
    def event_name(self) -> str:
        """The same whoever leads: the API server refuses a second one of this name."""
        digest = blake2b(f"{self.uid} {self.policy}".encode(), digest_size=8).hexdigest()
        return f"{self.pod[:200].rstrip('.-')}.{digest}"


class MissingPolicyReporter:
    """Call `round` in turn. rate: of Events; those beyond wait. clock: monotonic seconds."""

    def __init__(self, recorder: EventRecorder, rate: TokenBucket, clock: Callable[[], float]):
        self._recorder, self._rate, self._clock = recorder, rate, clock
        self._since: Mapping[PolicyReference, float] = {}
        self._reported: set[PolicyReference] = set()

    def sync(self, pods: Iterable[ObjectMeta], policies: TasPolicies) -> None:
        """pods: that carry the label and are not finished. Nothing is missing before the policies were listed."""
        if not policies.loaded:
            return
        now, found = self._clock(), dict.fromkeys(_missing_references(pods, policies))
        self._since = {named: self._since.get(named, now) for named in found}
        self._reported &= found.keys()
        for named, since in self._since.items():
            if now - since >= GRACE_SECONDS and named not in self._reported:
                if not self._rate.try_take():
                    return
                self._report(named)

    def reset(self) -> None:
        """When somebody else leads."""
        self._since, self._reported = {}, set()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield GaugeMetricFamily(
            "leadsman_controller_missing_policies",
            "Pods that name a telemetry policy which does not exist.",
            len(self._since),
        )

    def _report(self, named: PolicyReference) -> None:
        self._reported.add(named)
        about = ObjectReference("Pod", named.namespace, named.pod, named.uid)
        note = (
            f"label {POLICY_LABEL}: there is no TASPolicy {named.namespace}/{named.policy};"
            " such a pod is treated as one without a policy"
        )
        self._recorder.record(about, "TelemetryPolicyMissing", note, "Schedule", warning=True, name=named.event_name)


def _missing_references(pods: Iterable[ObjectMeta], policies: TasPolicies) -> Iterator[PolicyReference]:
    """A policy that is refused is there; its status says what is wrong."""
    for pod in pods:
        policy = pod.labels.get(POLICY_LABEL, "")
        key = PolicyKey(pod.namespace, policy)
        if policy and not pod.deletion_timestamp and key not in policies.used and key not in policies.refused:
            yield PolicyReference(pod.namespace, pod.name, pod.uid, policy)
