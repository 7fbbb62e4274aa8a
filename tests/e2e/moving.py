"""Plans on the cluster, as docs/moving-pods.md has them: made, handed over, carried out."""

import json
import os
import subprocess
from typing import Any

from leadsman.testbed.etcd import die_with_parent
from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import FIRST, Skipped, node_of, nodes_by_part
from tests.e2e.rollout import Rollout
from tests.e2e.tutorial import SLOW, run_until, slower
from tests.e2e.workload import WORKLOAD, is_elsewhere, living, pods, spread, with_workload

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


POLICY = "scores: {nearest: {weight: 50}, rewards: {weight: 0}}"
"""By the default weights 20 ms are worth 0.8 points, less than a move costs, and less than deaths in earlier rows."""


def _drain(cluster: Cluster, rollout: Rollout) -> str:
    """Plan, cordon, apply, and wait until no bounded pod is on the node.

    A node with a member of etcd is never planned to be empty.
    """
    spread(cluster)
    members = nodes_by_part(cluster)["etcd"]
    node = node_of(cluster, "agent", but=[node for node in cluster.nodes if node.name in members])
    planned = sum(pod["spec"]["nodeName"] == node.name for pod in pods(cluster))
    if not planned:
        raise Skipped(f"{node.name} has no bounded pod")
    _plan(cluster, rollout, "drain", node.name)
    cluster.kubectl("cordon", node.name)
    try:
        _apply(cluster, rollout)
        seconds = cluster.until(
            lambda: all(is_elsewhere(pod, node.name) for pod in living(cluster)), f"{node.name} is empty", 120
        )
        cluster.kubectl("rollout", "status", f"deployment/{WORKLOAD}", "--timeout=120s")
    finally:
        cluster.kubectl("uncordon", node.name)
    return f"{planned} pods of {node.name} moved in {seconds:.0f} s"


def _rebalance(cluster: Cluster, rollout: Rollout) -> str:
    """A node gets slower than the others: one of its pods is moved, unless the budget allows no eviction."""
    spread(cluster)
    node = max(cluster.nodes[FIRST + 1 :], key=lambda each: _on(cluster, each.name))
    there = _on(cluster, node.name)
    if there < 2:
        raise Skipped("no node has two pods, and the spread of the workload keeps one on each")
    with slower(node):
        run_until(rollout, f"kubectl leadsman delay {cluster.nodes[FIRST].name} {node.name}", SLOW)
        (rollout.folder / "policy.yaml").write_text(POLICY)
        rebalance = ("rebalance", "--policy", "policy.yaml")
        _allow(cluster, 0)
        if refused := _plan(cluster, rollout, *rebalance)["moves"]:
            raise RuntimeError(f"the budget allows no eviction, and the plan is {refused}")
        _allow(cluster, 1)
        moves = _plan(cluster, rollout, *rebalance)["moves"]
        if [move["from_node"] for move in moves] != [node.name]:
            raise RuntimeError(f"{node.name} is slow, and the plan is {moves}")
        _apply(cluster, rollout)
        seconds = cluster.until(lambda: _on(cluster, node.name) < there, f"a pod of {node.name} has moved", 120)
        cluster.kubectl("rollout", "status", f"deployment/{WORKLOAD}", "--timeout=120s")
        cluster.until(lambda: " moved" in rollout.leadsman("plan", "status", _access(cluster)), "the plan is done")
    return f"with a budget of 0: no move; of 1: {moves[0]['reason']}, moved in {seconds:.0f} s"


def _on(cluster: Cluster, node: str) -> int:
    return sum(not is_elsewhere(pod, node) for pod in living(cluster))


def _allow(cluster: Cluster, disruptions: int) -> None:
    """Until the disruption controller has seen it."""
    budget = {"spec": {"maxUnavailable": disruptions, "selector": {"matchLabels": {"app": WORKLOAD}}}}
    metadata = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": WORKLOAD}}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(metadata | budget))
    cluster.until(
        lambda: cluster.api.call("GET", f"{BUDGETS}/{WORKLOAD}")["status"].get("disruptionsAllowed") == disruptions,
        f"the budget allows {disruptions}",
    )


def _plan(cluster: Cluster, rollout: Rollout, *words: str) -> Any:
    """The plan, also in the folder's plan.json."""
    forward = [str(cluster.binaries / "kubectl"), "-n", "leadsman", "port-forward", "leadsman-etcd-0", "2379"]
    environ = os.environ | {"KUBECONFIG": str(cluster.api.kubeconfig())}
    with subprocess.Popen(forward, env=environ, stdout=subprocess.PIPE, preexec_fn=die_with_parent) as forwarding:
        assert forwarding.stdout
        forwarding.stdout.readline()
        try:
            rollout.leadsman("snapshot", _access(cluster), "--etcd=http://127.0.0.1:2379", "-o", "cluster.json")
        finally:
            forwarding.terminate()
    rollout.leadsman("plan", *words, "--snapshot", "cluster.json", "-o", "plan.json")
    return json.loads((rollout.folder / "plan.json").read_text())


def _apply(cluster: Cluster, rollout: Rollout) -> None:
    rollout.leadsman("plan", "apply", "plan.json", _access(cluster), "--confirm")


def _access(cluster: Cluster) -> str:
    return f"--kubeconfig={cluster.api.kubeconfig()}"


drain_by_plan, rebalance = with_workload(_drain), with_workload(_rebalance)
