"""Pods with a delay bound that run: what self-healing and plans are about."""

from collections.abc import Mapping
from typing import Any

from leadsman.planning.recovery_plan import UNREACHABLE_TAINT
from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import FIRST, Disturbance
from tests.e2e.images import SANDBOX
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import controller_series

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WORKLOAD = "bounded"
PODS = f"/api/v1/namespaces/default/pods?labelSelector=app%3D{WORKLOAD}"
REPLICAS = 9
"""More than nodes: of six, at least one beyond the first two has two."""


def with_workload(disturb: Disturbance) -> Disturbance:
    """With REPLICAS pods that may be on any node."""

    def within(cluster: Cluster, rollout: Rollout) -> str | None:
        cluster.api.call("POST", DEPLOYMENTS, _workload(f"node/{cluster.nodes[FIRST].name}: 50"))
        try:
            return disturb(cluster, rollout)
        finally:
            cluster.kubectl("delete", "deployment", WORKLOAD, "--wait=false")
            cluster.kubectl("delete", "poddisruptionbudget", WORKLOAD, "--ignore-not-found")
            for kind in ("replicaset", "pod"):  # the garbage collector may have missed it while the API server was away
                cluster.kubectl("delete", kind, "-l", f"app={WORKLOAD}", "--force", "--grace-period=0", "--wait=false")

    return within


def spread(cluster: Cluster) -> None:
    """Places all pods of the workload again, until they run, each with room elsewhere. Nothing moves back by itself.

    On all nodes: one that lost its power in an earlier row is tainted for some seconds after its return.
    """
    cluster.until(lambda: not any(is_tainted(cluster, node.name) for node in cluster.nodes), "no node is tainted")
    cluster.kubectl("rollout", "restart", f"deployment/{WORKLOAD}")
    cluster.kubectl("rollout", "status", f"deployment/{WORKLOAD}", "--timeout=120s")

    def all_covered() -> bool:
        covered = controller_series(cluster, 'leadsman_bounded_pods{coverage="covered"}')
        return len(pods(cluster)) == REPLICAS and max(covered, default=0) >= REPLICAS

    cluster.until(all_covered, "all bounded pods have a backup")


def _workload(delay: str) -> dict[str, object]:
    labels = {"app": WORKLOAD}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",  # by scores alone a node may get none, and its death shows nothing
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": labels},
        "matchLabelKeys": ["pod-template-hash"],
    }
    container = {"name": "main", "image": SANDBOX, "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
    pod = {"containers": [container], "topologySpreadConstraints": [constraint], "terminationGracePeriodSeconds": 0}
    metadata = {"labels": labels, "annotations": {"leadsman.dev/delay": delay}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WORKLOAD}, "spec": spec}


def pods(cluster: Cluster) -> list[Any]:
    items: list[Any] = cluster.api.call("GET", PODS)["items"]
    return items


def living(cluster: Cluster) -> list[Any]:
    return [pod for pod in pods(cluster) if "deletionTimestamp" not in pod["metadata"]]


def is_elsewhere(pod: Mapping[str, Any], *nodes: str) -> bool:
    return pod["spec"].get("nodeName", nodes[0]) not in nodes


def is_tainted(cluster: Cluster, node: str) -> bool:
    taints = cluster.api.call("GET", f"/api/v1/nodes/{node}")["spec"].get("taints", [])
    return any(each["key"] == UNREACHABLE_TAINT for each in taints)
