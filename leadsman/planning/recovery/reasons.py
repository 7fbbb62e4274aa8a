"""Why nothing is done about a dead node, and why a pod of one is not deleted. Each "no" is a sentence for an Event."""

import re
from collections.abc import Mapping

from leadsman.cluster.model import Cluster
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.kube.names import AUTONOMY_DURATION, FAILOVER_ANNOTATION
from leadsman.planning.recovery.model import NodeCondition, ObservedNode, RecoveryBudget

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
"""Somebody vouches that the node is off: its volumes may be detached (KEP-2268)."""

SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"

REPLACED_ELSEWHERE = frozenset({"ReplicaSet", "ReplicationController"})
"""Owners that make a new pod at once when one is being deleted, under another name."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m(?!s)|s|ms)")
_UNIT_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def why_withheld(
    name: str,
    nodes: Mapping[str, ObservedNode],
    cluster: Cluster,
    spent: int,
    budget: RecoveryBudget,
    now: float,
) -> str:
    """Why nothing may be done about the dead node; "": it may. spent: nodes failed over within the window."""
    if not allowed_nodes(len(nodes), budget):
        return "failover is off"
    node = cluster.nodes.get(name)
    if node is None:
        return f"node {name} was deleted"
    return _node_says_no(node, nodes[name], now) or _cluster_says_no(node, nodes, cluster, spent, budget)


def _node_says_no(node: ClusterNode, observed: ObservedNode, now: float) -> str:
    if node.annotations.get(FAILOVER_ANNOTATION) == "off":
        return f"annotation {FAILOVER_ANNOTATION} is off"
    if node.unschedulable:
        return "it is cordoned: somebody works on it"
    if any(taint.key == SHUTDOWN_TAINT for taint in node.taints):
        return "it is being shut down"
    autonomy = node.annotations.get(AUTONOMY_DURATION)
    if autonomy is not None:
        seconds, dead_for = duration_seconds(autonomy), now - (observed.dead_at or now)
        if seconds is None or not seconds or dead_for < seconds:
            return f"annotation {AUTONOMY_DURATION} is {autonomy[:63]}: its pods stay for that long"
    return ""


def _cluster_says_no(
    node: ClusterNode, nodes: Mapping[str, ObservedNode], cluster: Cluster, spent: int, budget: RecoveryBudget
) -> str:
    fresh = sum(each.fresh for each in nodes.values())
    if fresh < budget.fresh_ratio * len(nodes):
        return f"only {fresh} of {len(nodes)} agents report"
    zone = [each for name, each in nodes.items() if name in cluster.nodes and cluster.nodes[name].zone == node.zone]
    silent = sum(each.condition is not NodeCondition.HEALTHY for each in zone)
    if node.zone and len(zone) > 1 and silent > budget.silent_zone_ratio * len(zone):
        return f"{silent} of {len(zone)} nodes of zone {node.zone} are not healthy"
    allowed = allowed_nodes(len(nodes), budget)
    if spent >= allowed:
        return f"{spent} nodes were failed over in {budget.window_seconds:g} s, and {allowed} may be"
    return ""


def allowed_nodes(nodes: int, budget: RecoveryBudget) -> int:
    """How many nodes may be failed over within the window."""
    return max(budget.least_nodes, int(budget.nodes_ratio * nodes))


def why_stays(pod: ClusterPod, node: ClusterNode, cluster: Cluster, backup: str | None, uncovered: str) -> str:
    """Why a bounded pod of a dead node is not deleted; "": it may be.

    backup: the node that is to take it; None: there is none.
    uncovered: why.
    """
    asked = pod.annotations.get(FAILOVER_ANNOTATION, "")
    if asked == "off":
        return f"its annotation {FAILOVER_ANNOTATION} is off"
    if pod.mirror:
        return "it is a static pod"
    out_of_service = any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.taints)
    if pod.owner_kind == "StatefulSet" and not out_of_service:
        return f"a StatefulSet's pod must not run twice; set {OUT_OF_SERVICE_TAINT} once the node is off"
    if pod.owner_kind == "Job" and asked != "on":
        return f"a Job may lose its work; annotation {FAILOVER_ANNOTATION}: on allows it"
    if pod.owner_kind not in (*REPLACED_ELSEWHERE, "StatefulSet", "Job"):
        return f"its owner is a {pod.owner_kind}" if pod.owner_kind else "it has no controller that would make it again"
    if (claim := _single_node_claim(pod, cluster)) and not out_of_service:
        return f"claim {claim} can be attached to one node only; set {OUT_OF_SERVICE_TAINT} once the node is off"
    if backup is None:
        return f"it has no backup: {uncovered}"
    return ""


def _single_node_claim(pod: ClusterPod, cluster: Cluster) -> str:
    claims = (cluster.storage.claims.get((pod.namespace, name)) for name in pod.claims)
    return next((claim.name for claim in claims if claim is not None and claim.single_node), "")


def duration_seconds(text: str) -> float | None:
    """A Go duration, such as `1h30m`; "0" too. None: it is none."""
    if text in ("0", "0s"):
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
