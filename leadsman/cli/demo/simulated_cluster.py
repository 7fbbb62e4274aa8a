"""Simulates kubelets, ReplicaSets and kube-scheduler for the demos, on a fake API server.

A pod is an object of the API server and nothing else, so what the controller makes or deletes is seen here at once.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from leadsman.cli.demo import scheduler_request
from leadsman.kube.names import PLACEHOLDER_NAMESPACE, POD_TEMPLATE_HASH_LABEL
from leadsman.testbed.api_objects import ObjectPath
from leadsman.testbed.fake_api_server import ApiServerThread, FakeApiServer

GIB = 1 << 30
LEASE_SECONDS, RENEW_SECONDS = 8, 2.0

READY = {"type": "Ready", "status": "True"}


class SimulatedCluster:
    """Simulates a cluster; call `step` about ten times a second.

    extender: kube-scheduler's URL of it; "": no pod is placed yet.
    faults: node → seconds between two crashes of the pods on it. Take a node out to repair it.
    crashes: node → crashes so far.
    dead: nodes whose kubelet does not renew its Lease any more.
    """

    def __init__(self, api: ApiServerThread[FakeApiServer], memory_gib: Mapping[str, int], cloud: str = "") -> None:
        self.extender, self.faults, self.crashes, self.dead = "", dict[str, float](), Counter[str](), set[str]()
        self._api, self._memory_gib, self._rng = api, memory_gib, Random(1)
        self._deployments: dict[str, tuple[Mapping[str, str], int]] = {}
        self._renewed_at, self._stepped_at, self._made = float("-inf"), time.monotonic(), 0
        for node, size in memory_gib.items():
            capacity = {"cpu": "8", "memory": f"{size}Gi", "pods": "110"}
            status = {"capacity": capacity, "allocatable": capacity, "conditions": [READY]}
            labels = {"kubernetes.io/role": "cloud" if node == cloud else "edge", "kubernetes.io/hostname": node}
            api.put(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}, "spec": {}, "status": status})
        for namespace in ("default", "leadsman", PLACEHOLDER_NAMESPACE):
            api.put(f"/api/v1/namespaces/{namespace}", {})
        self._renew()

    def deploy(self, name: str, labels: Mapping[str, str], memory_gib: int) -> None:
        """Creates a Deployment of one pod, which is made again whenever it is gone."""
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": "", "controller": True}
        replica_set = {"metadata": {"uid": name, "ownerReferences": [owner]}}
        self._api.put(f"/apis/apps/v1/namespaces/default/replicasets/{name}-1", replica_set)
        self._deployments[name] = labels, memory_gib

    def create(self, name: str, labels: Mapping[str, str], memory_gib: int = 0, owner: str = "") -> dict[str, Any]:
        """Creates a pod that waits for a node. owner: its Deployment."""
        owners = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{owner}-1", "uid": owner, "controller": True}
        ]
        resources = {"requests": {"memory": f"{memory_gib}Gi"}}
        pod = {
            "metadata": {"name": name, "labels": dict(labels), "ownerReferences": owners if owner else []},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
            "status": {"phase": "Pending"},
        }
        return self._api.put(f"/api/v1/namespaces/default/pods/{name}", pod)

    def run(self, pod: Mapping[str, Any], node: str, restarts: int = 0, last_state: Mapping[str, Any] = {}) -> None:
        """Makes the node's kubelet run the pod from now on."""
        running = {"running": {"startedAt": _now()}}
        container = {"name": "main", "restartCount": restarts, "ready": True, "state": running, "lastState": last_state}
        status = {"phase": "Running", "conditions": [READY], "containerStatuses": [container]}
        bound = {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}
        metadata = pod["metadata"]
        self._api.put(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", bound)

    def delete(self, name: str) -> None:
        self._api.delete(f"/api/v1/namespaces/default/pods/{name}")

    def pods(self) -> list[dict[str, Any]]:
        """Returns all pods, placeholders too."""
        return self._all("/api/v1/pods")

    def node_of(self, deployment: str) -> str:
        """Returns the node that the Deployment's pod is bound to; "" when it is not."""
        return next((_node(pod) for pod in self.pods() if _owner(pod) == deployment), "")

    def step(self) -> None:
        self._renew()
        owners = {_owner(pod) for pod in self.pods()}
        for name in self._deployments.keys() - owners:
            labels, memory_gib = self._deployments[name]
            self._made += 1
            of_set = {"app": name, POD_TEMPLATE_HASH_LABEL: "1", **labels}
            self.create(f"{name}-1-{self._made}", of_set, memory_gib, name)
        now = time.monotonic()
        crashing = {node for node, period in self.faults.items() if now // period > self._stepped_at // period}
        self._stepped_at = now
        for pod in self.pods():
            if _node(pod) in crashing:
                self._crash(pod)
            elif not _node(pod) and self.extender:
                self._place(pod)

    def _all(self, path: str) -> list[dict[str, Any]]:
        return self._api.call(lambda server: server.objects.all(ObjectPath(path)))

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < RENEW_SECONDS:
            return
        self._renewed_at = time.monotonic()
        for node in self._memory_gib.keys() - self.dead:
            spec = {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": _now()}
            self._api.put(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}", {"spec": spec})

    def _crash(self, pod: Mapping[str, Any]) -> None:
        """The container ends, and kubelet starts it again."""
        self.crashes[_node(pod)] += 1
        (was,) = pod["status"]["containerStatuses"]
        ended = {"exitCode": 1, "reason": "Error", "finishedAt": _now(), **was["state"]["running"]}
        self.run(pod, _node(pod), was["restartCount"] + 1, {"terminated": ended})

    def _place(self, pod: dict[str, Any]) -> None:
        """Binds the pod as kube-scheduler does: to the node of the best score, of the fewest pods, then by chance."""
        bound = [each for each in self.pods() if _node(each)]
        nodes = list(self._with_room(pod, bound))
        body = scheduler_request.captured_args(nodes, {}) | {"Pod": pod}
        scores = scheduler_request.filter_and_prioritize(self.extender, body) if nodes else {}
        if scores:
            pods = Counter(map(_node, bound))
            self.run(pod, min(scores, key=lambda node: (-scores[node], pods[node], self._rng.random())))

    def _with_room(self, pod: Mapping[str, Any], bound: list[dict[str, Any]]) -> Iterator[str]:
        """Yields the nodes that kube-scheduler would ask the extender about."""
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
        only = terms[0]["matchFields"][0]["values"][0] if terms else ""
        for node in self._all("/api/v1/nodes"):
            name = node["metadata"]["name"]
            taken = sum(_memory(each) for each in bound if _node(each) == name)
            has_room = taken + _memory(pod) <= self._memory_gib[name] * GIB
            if only in ("", name) and not node["spec"].get("taints") and has_room:
                yield name


def _now() -> str:
    return f"{datetime.now(UTC):%FT%T.%fZ}"


def _node(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _owner(pod: Mapping[str, Any]) -> str:
    """Returns the Deployment that the pod is of; "" for a placeholder."""
    return str(next((owner["uid"] for owner in pod["metadata"].get("ownerReferences", ())), ""))


def _memory(pod: Mapping[str, Any]) -> int:
    amounts = (container["resources"]["requests"]["memory"] for container in pod["spec"]["containers"])
    return sum(int(text.removesuffix("Gi")) * GIB if text.endswith("Gi") else int(text) for text in amounts)
