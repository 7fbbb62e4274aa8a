"""Where the pods of workloads run: what a delay bound means by the name of a workload.

A workload is what a pod belongs to in the end: Pod → ReplicaSet → Deployment, or StatefulSet, DaemonSet, Job, any other
controller's kind, or the pod itself when it has none. Kinds are in lower case: `deployment/web`, `pod/alone`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct


class PlacedPod(NamedTuple):
    """A pod that has a node and has not finished."""

    pod: str
    node: str


PlacedPods = tuple[PlacedPod, ...]

_NOTHING: Mapping[str, PlacedPods] = MappingProxyType({})

POD_TEMPLATE_HASH_LABEL = "pod-template-hash"
"""What a Deployment's ReplicaSet appends to its name and writes on its pods."""


class WorkloadIndex(Struct, frozen=True):
    """The view at one moment; a new object when anything changes. The default knows nothing.

    workloads: (namespace, name) → kind → its placed pods, () for a workload of which no pod has a node. read_at: the
    monotonic seconds when the API server last confirmed the view; None: it never did, and nothing is known.
    """

    by_name: Mapping[tuple[str, str], Mapping[str, PlacedPods]] = MappingProxyType({})
    read_at: float | None = None

    @property
    def loaded(self) -> bool:
        return self.read_at is not None

    def age_seconds(self, now: float) -> float | None:
        return None if self.read_at is None else now - self.read_at

    def find(self, namespace: str, name: str) -> Mapping[str, PlacedPods]:
        """Kind → placed pods of each workload of that name, `web` or of one kind `deployment/web`; {} when none is."""
        kind, slash, bare = name.rpartition("/")
        kinds = self.by_name.get((namespace, bare), _NOTHING)
        return kinds if not slash else {kind: kinds[kind]} if kind in kinds else _NOTHING


def workload_name(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Whose pod it is, of its controller's kind and name and its own labels: a ReplicaSet with the Deployment's hash
    at the end of its name is the Deployment's."""
    deployment = name.removesuffix(f"-{labels.get(POD_TEMPLATE_HASH_LABEL)}")
    if kind.lower() == "replicaset" and deployment != name:
        return f"deployment/{deployment}"
    return f"{kind.lower()}/{name}"
