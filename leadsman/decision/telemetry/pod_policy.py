"""Finds the telemetry policy that a pod names by its label `telemetry-policy`, in the pod's own namespace."""

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.telemetry.taspolicy import FailMode, PolicyKey, TasPolicy
from leadsman.kube.names import POLICY_LABEL


def named_policy(pod: PodInfo) -> PolicyKey | None:
    """The policy that the pod names; None: it names none."""
    name = pod.labels.get(POLICY_LABEL)
    return PolicyKey(pod.namespace, name) if name else None


def find_policy(pod: PodInfo, inputs: DecisionInputs) -> TasPolicy | None:
    """The valid policy that the pod names; None when it names none, or there is none of that name."""
    key = named_policy(pod)
    return None if key is None else inputs.telemetry.policies.used.get(key)


def is_policy_missing(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Whether the pod names a policy that does not exist. It is then scheduled like a pod without a policy."""
    return named_policy(pod) is not None and find_policy(pod, inputs) is None


def fails_closed(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Whether the pod must be refused when nothing can be decided."""
    policy = find_policy(pod, inputs)
    return policy is not None and policy.dontschedule is not None and policy.fail_mode is FailMode.CLOSED
