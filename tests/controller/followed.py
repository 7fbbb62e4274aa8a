"""What keepers are given in tests: their tools, and what is listed or followed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from controller.keeper import HealedCluster, NodeCache, Tools
from controller.pods import WatchedPod
from leadsman.decision.inputs import DecisionInputs, DelayView, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.decoding import decode_json
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import ObjectPath
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

PLACEHOLDERS = "/api/v1/namespaces/leadsman-placeholders/pods"

EDGES = ("edge-1", "edge-2", "edge-3")


def delays(*rtt_ms: Sequence[float], nodes: Sequence[str] = EDGES) -> DelayMatrix:
    """Between each two nodes, a row of round trips for each of them."""
    return DelayMatrix({node: at for at, node in enumerate(nodes)}, np.array(rtt_ms, float))


def inputs_of(*views: DelayView) -> DecisionInputs:
    """At 100 s, of what these measured, while no workload runs."""
    return DecisionInputs(
        Snapshot(cluster_id="c"), Policy(), 100.0, workloads=WorkloadIndex({}, 100.0), delay_views=views
    )


def event_writer(client: ApiClient) -> EventWriter:
    """Without a limit that a test could meet; it writes while it is run."""
    return EventWriter(client, TokenBucket(1e6, 1000), "controller-1")


def tools(
    client: ApiClient | None,
    events: "EventWriter | Told | None" = None,
    inputs: Callable[[], DecisionInputs] = inputs_of,
    leads: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
    wall_clock: Callable[[], float] = time.time,
) -> Tools:
    """Without events of a dry run."""
    return Tools(client, leads, inputs, events, clock=clock, wall_clock=wall_clock)  # type: ignore[arg-type]


class Told:
    """An EventWriter that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def record(self, about: Any, reason: str, note: str, action: str, warning: bool, api: str, name: str) -> None:
        self.events.append(SimpleNamespace(about=about, reason=reason, note=note, warning=warning, name=name))


def listed(current: Mapping[Any, Any]) -> Any:
    """A Reflector of these objects, which are listed."""
    loaded = asyncio.Event()
    loaded.set()
    return SimpleNamespace(current=current, loaded=loaded)


def node_cache(*names: str, **meta: Any) -> NodeCache:
    """Nodes that are listed."""
    nodes = {name: ObjectMeta(name, uid=f"uid-of-{name}", labels=BoundedLabels({}), **meta) for name in names}
    return NodeCache(listed({("", name): PartialObjectMetadata(each) for name, each in nodes.items()}))


def waiting_pod(
    name: str = "p", labels: Mapping[str, str] = {}, reason: str = "Unschedulable", **meta: str
) -> WatchedPod:
    """A pod that kube-scheduler gave up for this reason."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    body = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": dict(labels), **meta},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    return decode_json(json.dumps(body).encode(), WatchedPod)


def put_nodes(api: FakeApiServer, **memory: str) -> None:
    """memory: node, with _ for -, → its memory; its name is its UID."""
    for name, amount in ((name.replace("_", "-"), amount) for name, amount in memory.items()):
        allocatable = {"cpu": "4", "memory": amount, "pods": "20"}
        api.put(f"/api/v1/nodes/{name}", {"metadata": {"uid": name}, "status": {"allocatable": allocatable}})


def owned_pod(node: str, owner: str = "web", labels: Mapping[str, str] = {}, **meta: Any) -> dict[str, Any]:
    """A ready pod of a ReplicaSet, of 1 GiB."""
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    return {
        "metadata": {"labels": dict(labels), "ownerReferences": [reference], **meta},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


class KnownHolds(HealedCluster):
    """Of which extenders know each hold of a move at once, unless they are said not to."""

    known = True

    def publishes_hold_of_move(self, _: str) -> bool:
        return self.known


def bind_placeholders(api: FakeApiServer) -> None:
    """As kube-scheduler does, each to the node that its affinity names."""
    for pod in api.objects.all(ObjectPath("/api/v1/pods", namespace="leadsman-placeholders")):
        term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [node] = term["nodeSelectorTerms"][0]["matchFields"][0]["values"]
        api.put(f"{PLACEHOLDERS}/{pod['metadata']['name']}", {**pod, "spec": {"nodeName": node, **pod["spec"]}})


@asynccontextmanager
async def followed(follower: ClusterFollower) -> AsyncIterator[None]:
    """Follows from entry, which waits for the first cluster, to exit."""
    async with running(follower.run()):
        await until(lambda: follower.current is not None)
        yield
