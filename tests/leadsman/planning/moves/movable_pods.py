"""Nodes, pods of a Deployment and selectors of them, in few words."""

from collections.abc import Callable
from typing import Any

from leadsman.cluster.constraints import LabelSelector, Operator, Requirement
from leadsman.cluster.model import ClusterNode, ClusterPod
from leadsman.cluster.resources import Resources

GIB = 2**30


def node(name: str, gib: int = 8) -> ClusterNode:
    return ClusterNode(name, f"uid-{name}", allocatable=Resources(8000, gib * GIB, 110), ready=True)


def owned_pod(name: str, where: str, requests: Resources, owner: str = "", **more: Any) -> ClusterPod:
    """A pod of the Deployment `owner`; "": one of its own. more: other fields, also in place of these."""
    owner = owner or name
    owned: dict[str, Any] = {"workload": f"deployment/{owner}", "owner_kind": "ReplicaSet", "owner_uid": f"rs-{owner}"}
    uid = more.pop("uid", name)
    return ClusterPod(uid, "shop", name, where, requests=requests, **owned | more)


def pods_of(gib: int, owner: str = "") -> Callable[..., ClusterPod]:
    """pod(name, node, …): a pod that runs, of so many GiB and of this owner, where nothing else is said."""

    def pod(name: str, where: str, gib: int = gib, owner: str = owner, **more: Any) -> ClusterPod:
        return owned_pod(name, where, Resources(100, gib * GIB, 1), owner, **{"phase": "Running", "ready": True} | more)

    return pod


def of_app(name: str) -> LabelSelector:
    """Selects the pods whose label `app` is this."""
    return LabelSelector((Requirement("app", Operator.IN, (name,)),))
