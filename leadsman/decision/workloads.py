"""The index of workloads: on which nodes the pods of each workload run, for delay bounds that name a workload.

A workload is what a pod belongs to at the top: Pod → ReplicaSet → Deployment, or StatefulSet, DaemonSet, Job, any other
controller's kind, or the pod itself when it has none. Kinds are in lower case: `deployment/web`, `pod/alone`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from leadsman.kube.names import POD_TEMPLATE_HASH_LABEL


class PlacedPod(NamedTuple):
    """A pod that has a node and has not finished."""

    pod: str
    node: str


PlacedPods = tuple[PlacedPod, ...]

_NO_WORKLOADS: Mapping[str, PlacedPods] = MappingProxyType({})


class WorkloadIndex(Struct, frozen=True):
    """All workloads at one moment; a new object when anything changes. The default is not loaded.

    by_name: (namespace, name) → kind → placed pods, () for a workload of which no pod has a node.
    read_at: monotonic seconds when the API server last confirmed the index; None: not loaded.
    """

    by_name: Mapping[tuple[str, str], Mapping[str, PlacedPods]] = MappingProxyType({})
    read_at: float | None = None

    @property
    def loaded(self) -> bool:
        """Whether the workloads were ever listed."""
        return self.read_at is not None

    def age_seconds(self, now: float) -> float | None:
        """Since the API server last confirmed the index; None: not loaded."""
        return None if self.read_at is None else now - self.read_at

    def find(self, namespace: str, name: str) -> Mapping[str, PlacedPods]:
        """Kind → placed pods of the workloads of that name, `web`, or `deployment/web` for one kind; {} for none."""
        kind, slash, bare = name.rpartition("/")
        kinds = self.by_name.get((namespace, bare), _NO_WORKLOADS)
        return kinds if not slash else {kind: kinds[kind]} if kind in kinds else _NO_WORKLOADS


def workload_name(kind: str, name: str, labels: Mapping[str, str]) -> str:
    """Whose pod it is, of its controller's kind and name and its own labels: a ReplicaSet with the Deployment's hash
    at the end of its name is the Deployment's."""
    deployment = name.removesuffix(f"-{labels.get(POD_TEMPLATE_HASH_LABEL)}")
    if kind.lower() == "replicaset" and deployment != name:
        return f"deployment/{deployment}"
    return f"{kind.lower()}/{name}"
