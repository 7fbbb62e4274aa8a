"""Plays kubelets, ReplicaSets and kube-scheduler on a fake API server: enough of each for the failover demo.

A placement is the extender's: it is asked as kube-scheduler asks, with the nodes that have room and no taint.
"""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from leadsman.cli.demo import scheduler_request
from leadsman.kube.names import PLACEHOLDER_NAMESPACE, POD_TEMPLATE_HASH_LABEL
from leadsman.testbed.api_objects import ObjectPath
from leadsman.testbed.fake_api_server import ApiServerThread

GIB = 1 << 30
LEASE_SECONDS = 8
RENEW_SECONDS = 2.0


class Request(Struct, frozen=True):
    """One Deployment of one pod. labels: its delay bound. memory_gib: what it requests."""

    name: str
    labels: Mapping[str, str]
    memory_gib: int


class SimulatedControlPlane:
    """Call `step` about ten times a second.

    dead: nodes whose kubelet does not renew its Lease any more.
    """

    def __init__(self, api: ApiServerThread, memory_gib: Mapping[str, int], cloud: str) -> None:
        self.dead: set[str] = set()
        self._api, self._memory_gib, self._extender = api, memory_gib, ""
        self._requests: list[Request] = []
        self._renewed_at, self._made = float("-inf"), 0
        for node, size in memory_gib.items():
            role = "cloud" if node == cloud else "edge"
            capacity = {"cpu": "8", "memory": f"{size}Gi", "pods": "110"}
            status = {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            labels = {"kubernetes.io/role": role, "kubernetes.io/hostname": node}
            api.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}, "spec": {}, "status": status})
        for namespace in ("default", "leadsman", PLACEHOLDER_NAMESPACE):
            api.put(f"/api/v1/namespaces/{namespace}", {})
        self._renew()

    def schedule_with(self, extender: str) -> None:
        """From now on pods are placed."""
        self._extender = extender

    def submit(self, request: Request) -> None:
        """Creates the Deployment's ReplicaSet, whose pod is made again whenever it is gone."""
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": request.name, "uid": "", "controller": True}
        metadata = {"uid": request.name, "ownerReferences": [owner]}
        self._api.put(f"/apis/apps/v1/namespaces/default/replicasets/{request.name}-1", {"metadata": metadata})
        self._requests.append(request)

    def pods(self) -> dict[str, Any]:
        """Name → object, placeholders too."""
        found = self._api.call(lambda server: server.objects.all(ObjectPath("/api/v1/pods")))
        return {pod["metadata"]["name"]: pod for pod in found}

    def node_of(self, request: str) -> str:
        """Where the request's pod is bound; "" when it is not."""
        return next((pod["spec"].get("nodeName", "") for pod in self.pods().values() if _owner(pod) == request), "")

    def step(self) -> None:
        self._renew()
        owners = {_owner(pod) for pod in self.pods().values()}
        for request in self._requests:
            if request.name not in owners:
                self._make(request)
        for pod in self.pods().values():
            if not pod["spec"].get("nodeName") and self._extender:
                self._place(pod)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        for node in self._memory_gib.keys() - self.dead:
            spec = {
                "holderIdentity": node,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": f"{datetime.now(UTC):%FT%T.%fZ}",
            }
            self._api.put(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}", {"spec": spec})

    def _make(self, request: Request) -> None:
        self._made += 1
        name = f"{request.name}-1-{self._made}"
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{request.name}-1",
            "uid": request.name,
            "controller": True,
        }
        metadata = {
            "labels": {"app": request.name, POD_TEMPLATE_HASH_LABEL: "1", **request.labels},
            "ownerReferences": [owner],
        }
        resources = {"requests": {"memory": f"{request.memory_gib}Gi"}}
        spec = {"containers": [{"name": "main", "image": "none", "resources": resources}]}
        self._api.put(
            f"/api/v1/namespaces/default/pods/{name}",
            {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}},
        )

    def _place(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        nodes = list(self._with_room(pod))
        body = scheduler_request.captured_args(nodes, {})
        body["Pod"] = pod
        scores = scheduler_request.filter_and_prioritize(self._extender, body) if nodes else {}
        if scores:
            ready = {"type": "Ready", "status": "True"}
            node = min(scores, key=lambda one: (-scores[one], one))
            bound = {
                **pod,
                "spec": {**pod["spec"], "nodeName": node},
                "status": {"phase": "Running", "conditions": [ready]},
            }
            self._api.put(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", bound)

    def _with_room(self, pod: dict[str, Any]) -> Iterator[str]:
        """The nodes that kube-scheduler would ask the extender about."""
        pods = [each for each in self.pods().values() if each["spec"].get("nodeName")]
        only = _required_node(pod)
        for node in self._api.call(lambda server: server.objects.all(ObjectPath("/api/v1/nodes"))):
            name = node["metadata"]["name"]
            taken = sum(_memory(each) for each in pods if each["spec"]["nodeName"] == name)
            tainted = node["spec"].get("taints")
            if only in ("", name) and not tainted and taken + _memory(pod) <= self._memory_gib[name] * GIB:
                yield name


def _owner(pod: dict[str, Any]) -> str:
    """The request that the pod is of; "" for a placeholder."""
    return str(next((owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())), ""))


def _required_node(pod: dict[str, Any]) -> str:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return str(terms[0]["matchFields"][0]["values"][0]) if terms else ""


def _memory(pod: dict[str, Any]) -> int:
    amounts = (container["resources"]["requests"]["memory"] for container in pod["spec"]["containers"])
    return sum(int(text.removesuffix("Gi")) * GIB if text.endswith("Gi") else int(text) for text in amounts)
