"""Which policy a pod names: label `telemetry-policy`, in the pod's own namespace."""

from decision.model import Facts, Pod
from decision.telemetry.policy import FailMode, PolicyKey, TasPolicy

LABEL = "telemetry-policy"


def named(pod: Pod) -> PolicyKey | None:
    name = pod.labels.get(LABEL)
    return PolicyKey(pod.namespace, name) if name else None


def of(pod: Pod, facts: Facts) -> TasPolicy | None:
    """None when it names none, or one that is not there."""
    key = named(pod)
    return None if key is None else facts.telemetry.policies.used.get(key)


def missing(pod: Pod, facts: Facts) -> bool:
    """Whether it names a policy that is not there. Such a pod is scheduled as one without."""
    return named(pod) is not None and of(pod, facts) is None


def fails_closed(pod: Pod, facts: Facts) -> bool:
    """Whether the pod is to be refused when nothing can be decided."""
    policy = of(pod, facts)
    return policy is not None and policy.dontschedule is not None and policy.fail_mode is FailMode.CLOSED
