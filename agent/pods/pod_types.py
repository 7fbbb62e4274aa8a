"""The type of a pod, under which its reward is kept. Pure."""

from leadsman.kube.objects import Pod
from leadsman.kube.owners import pod_owner
from leadsman.rewards.pod_types import pod_type
from leadsman.state.keys import is_pod_type

OTHER_TYPE = "other"


def pod_type_of(pod: Pod) -> str:
    """The type of a pod. One that cannot be part of a key, which the API server would refuse, is "other"."""
    owner = pod_owner(pod.metadata.name, pod.metadata.owner_references)
    name = pod_type(pod.metadata.labels, owner.name, owner.kind)
    return name if is_pod_type(name) else OTHER_TYPE
