"""Nodes and pods that may be moved, in few words."""

from collections.abc import Callable
from typing import Any

from leadsman.cluster.model import ClusterNode, ClusterPod
from leadsman.cluster.resources import Resources

GIB = 2**30


def node(name: str, gib: int = 8) -> ClusterNode:
    return ClusterNode(name, f"uid-{name}", allocatable=Resources(8000, gib * GIB, 110), ready=True)


def pods_of(gib: int, owner: str = "") -> Callable[..., ClusterPod]:
    """pod(name, node, …): a pod of so many GiB and of this owner, where nothing else is said; "": one of its own."""

    def pod(name: str, where: str, gib: int = gib, owner: str = owner, **more: Any) -> ClusterPod:
        owner = owner or name
        fields = {"workload": f"deployment/{owner}", "owner_kind": "ReplicaSet", "owner_uid": f"rs-{owner}", **more}
        size = Resources(100, gib * GIB, 1)
        return ClusterPod(name, "shop", name, where, requests=size, phase="Running", ready=True, **fields)

    return pod
