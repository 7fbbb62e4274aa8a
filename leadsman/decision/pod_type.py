"""The type that a pod's rewards and run times are kept under."""

from leadsman.decision.model import PodInfo
from leadsman.rewards import pod_types


def pod_type_of(pod: PodInfo) -> str:
    """The type that the pod's rewards are kept under."""
    kind, _, owner = pod.workload.partition("/")
    return pod_types.pod_type(pod.labels, owner or pod.name, "Job" if kind == "job" else "")
