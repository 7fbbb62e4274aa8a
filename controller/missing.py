"""Tells of pods that name a telemetry policy which does not exist: by an Event on the pod, once a pod and policy.

Such a pod is scheduled as one without a policy, which nothing else would show to its owner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from apiserver.objects import Involved, Metadata
from controller.rate import Rate
from controller.recorder import Recorder
from decision.telemetry.known import Policies
from decision.telemetry.link import LABEL
from decision.telemetry.policy import PolicyKey

AFTER_SECONDS = 5.0
"""One `kubectl apply` may bring a pod before its policy."""


class Named(Struct, frozen=True):
    """A pod and the policy that it names."""

    namespace: str
    pod: str
    uid: str
    policy: str

    @property
    def event(self) -> str:
        """The same whoever leads: the API server refuses a second one of this name."""
        digest = blake2b(f"{self.uid} {self.policy}".encode(), digest_size=8).hexdigest()
        return f"{self.pod[:200].rstrip('.-')}.{digest}"


class Missing:
    """Call `round` in turn. rate: of Events; those beyond wait. clock: monotonic seconds."""

    def __init__(self, recorder: Recorder, rate: Rate, clock: Callable[[], float]):
        self._recorder, self._rate, self._clock = recorder, rate, clock
        self._since: Mapping[Named, float] = {}
        self._told: set[Named] = set()

    def round(self, pods: Iterable[Metadata], policies: Policies) -> None:
        """pods: that carry the label and are not finished. Nothing is missing before the policies were listed."""
        if not policies.loaded:
            return
        now, found = self._clock(), dict.fromkeys(_missing(pods, policies))
        self._since = {named: self._since.get(named, now) for named in found}
        self._told &= found.keys()
        for named, since in self._since.items():
            if now - since >= AFTER_SECONDS and named not in self._told:
                if not self._rate.take():
                    return
                self._tell(named)

    def forget(self) -> None:
        """When somebody else leads."""
        self._since, self._told = {}, set()

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield GaugeMetricFamily(
            "leadsman_controller_missing_policies",
            "Pods that name a telemetry policy which does not exist.",
            len(self._since),
        )

    def _tell(self, named: Named) -> None:
        self._told.add(named)
        about = Involved("Pod", named.namespace, named.pod, named.uid)
        note = (
            f"label {LABEL}: there is no TASPolicy {named.namespace}/{named.policy};"
            " such a pod is treated as one without a policy"
        )
        self._recorder.record(about, "TelemetryPolicyMissing", note, "Schedule", warning=True, name=named.event)


def _missing(pods: Iterable[Metadata], policies: Policies) -> Iterator[Named]:
    """A policy that is refused is there; its status says what is wrong."""
    for pod in pods:
        policy = pod.labels.get(LABEL, "")
        key = PolicyKey(pod.namespace, policy)
        if policy and not pod.deletion_timestamp and key not in policies.used and key not in policies.refused:
            yield Named(pod.namespace, pod.name, pod.uid, policy)
