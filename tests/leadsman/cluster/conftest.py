"""Parts of a cluster, each with only what a test is about."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from leadsman.cluster.model import UNBOUND, ClusterNode, ClusterPod
from leadsman.cluster.resources import Resources

ROOM = Resources(1000, 1000, 10)

MakeNode = Callable[..., ClusterNode]
MakePod = Callable[..., ClusterPod]


@pytest.fixture
def node() -> MakeNode:
    """`node("a", zone="z1")`: a node with room for ten pods, with its name as label `host`, and those labels."""

    def made(name: str, *, allocatable: Resources = ROOM, **more: Any) -> ClusterNode:
        fields: Mapping[str, Any] = {key: more.pop(key) for key in set(more) & set(ClusterNode.__struct_fields__)}
        return ClusterNode(name, labels={"host": name, **more}, allocatable=allocatable, **fields)

    return made


@pytest.fixture
def pod() -> MakePod:
    """`pod("p", "a", app="db")`: a pod of app db on node a, with further fields by name."""

    def made(uid: str, on: str = UNBOUND, *, app: str = "web", namespace: str = "default", **more: Any) -> ClusterPod:
        return ClusterPod(uid, namespace, uid, on, labels={"app": app}, **more)

    return made
