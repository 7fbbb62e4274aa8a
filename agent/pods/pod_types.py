"""The type of a pod of the API's. Pure."""

from leadsman.kube.objects import Pod
from leadsman.kube.owners import pod_owner
from leadsman.rewards.pod_types import pod_type
from leadsman.state.keys import is_pod_type

OTHER_TYPE = "other"


def pod_type_of(pod: Pod) -> str:
    """A name that cannot stand in a key, which the API server lets nobody have, counts as "other"."""
    owner = pod_owner(pod.metadata.name, pod.metadata.owner_references)
    found = pod_type(pod.metadata.labels, owner.name, owner.kind)
    return found if is_pod_type(found) else OTHER_TYPE
