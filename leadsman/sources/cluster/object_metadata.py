"""The metadata and conditions that the model reads of any object."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.pod import MIRROR_ANNOTATION
from leadsman.kube.names import DOMAIN
from leadsman.kube.objects import OwnerReference

USED_ANNOTATIONS = (
    f"{DOMAIN}/",
    MIRROR_ANNOTATION,
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "node.openyurt.io/autonomy-duration",
    "kubernetes.io/egress-bandwidth",
    "gas-",
)
"""How the names of annotations begin that something here reads."""

_NO_ANNOTATIONS: Mapping[str, str] = {}


class MetadataFields(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: str | None = None

    def identity(self) -> "MetadataFields":
        """Only what a view of the API server's objects needs."""
        return MetadataFields(self.name, self.namespace, self.uid, self.resource_version)

    def used_annotations(self) -> Mapping[str, str]:
        """Those that something here reads."""
        used = {key: value for key, value in self.annotations.items() if key.startswith(USED_ANNOTATIONS)}
        return used or _NO_ANNOTATIONS


class ConditionFields(Struct, frozen=True, gc=False):
    """A condition of an object."""

    type: str
    status: str = "Unknown"
    reason: str = ""


def condition(conditions: Sequence[ConditionFields], name: str) -> bool | None:
    """Whether the condition is true; None: Unknown, or there is none of that name."""
    status = next((each.status for each in conditions if each.type == name), "Unknown")
    return {"True": True, "False": False}.get(status)
