"""Self-healing on the cluster: what nodes die of, how soon their bounded pods are elsewhere, and what is no death."""

import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from leadsman.kube.names import UNREACHABLE_CONDITION
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT
from leadsman.testbed import namespaces
from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import Disturbance, node_of
from tests.e2e.node import Node
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import StateWatch
from tests.e2e.workload import REPLICAS, is_elsewhere, living, pods, spread, with_workload

DEAD_WITHIN_SECONDS = 30.0
"""From the cut to the last replacement's node: docs/self-healing.md."""

WATCHED_SECONDS = 20.0
"""After a fault that is no death: longer than any of the controller's three signals takes to end."""

STEPS = ("suspect", "dead", "tainted", "deleted", "bound")


def deaths_of(part: str) -> Disturbance:
    """Power cuts of nodes with a pod of the part (agent: of any other node) and bounded pods. Each boots again."""

    def disturb(cluster: Cluster, rollout: Rollout) -> str:
        deaths = [_death(cluster, rollout, part) for _ in range(rollout.deaths)]
        late = [death for death in deaths if death["bound"] > DEAD_WITHIN_SECONDS]
        said = f"n {len(deaths)}, p50/max s: {', '.join(_step(deaths, step) for step in STEPS)}"
        if late:
            raise RuntimeError(f"{len(late)} of {len(deaths)} took over {DEAD_WITHIN_SECONDS:g} s: {said}")
        return said

    return with_workload(disturb)


def _step(deaths: Sequence[Mapping[str, float]], step: str) -> str:
    seconds = [death[step] for death in deaths if step in death]
    return f"{step} {statistics.median(seconds):.1f}/{max(seconds):.1f}" if seconds else f"{step} not seen"


def withstands(fault: Callable[[Cluster, Node], None]) -> Disturbance:
    """Something that is no death: all bounded pods stay, and no node is tainted."""

    def disturb(cluster: Cluster, rollout: Rollout) -> str:
        spread(cluster)
        before = {pod["metadata"]["uid"] for pod in pods(cluster)}
        fault(cluster, node_of(cluster, "etcd"))
        ends_at = time.monotonic() + WATCHED_SECONDS
        while time.monotonic() < ends_at:
            gone = before - {pod["metadata"]["uid"] for pod in living(cluster)}
            tainted = [node.name for node in cluster.nodes if _is_tainted(cluster, node.name)]
            if gone or tainted:
                raise RuntimeError(f"{len(gone)} pods were deleted, tainted: {tainted or 'none'}")
            time.sleep(1)
        rollout.wait_for_all()
        cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
        return f"{len(before)} bounded pods stayed"

    return with_workload(disturb)


def cut_network(_: Cluster, node: Node) -> None:
    """Three times 8 s; between two it renews its Lease, so that they are not one."""
    for _time in range(3):
        namespaces.configure([f"link set {node.name} down"])
        time.sleep(8)
        namespaces.configure([f"link set {node.name} up"])
        time.sleep(WATCHED_SECONDS)


def stop_kubelet(_: Cluster, node: Node) -> None:
    """Its Lease runs out, and its pods go on."""
    pids = node.kubelets()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(60)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _death(cluster: Cluster, rollout: Rollout, part: str) -> Mapping[str, float]:
    """Step → seconds since the cut."""
    spread(cluster)
    node = node_of(cluster, part)
    lost = {pod["metadata"]["uid"] for pod in pods(cluster) if pod["spec"].get("nodeName") == node.name}
    if not lost:
        raise RuntimeError(f"{node.name} has no bounded pod")
    began, seen = time.monotonic(), dict[str, float]()
    node.lose()

    def all_bound() -> bool:
        passed = time.monotonic() - began
        left = living(cluster)
        status = _condition(cluster, node.name).get("status")
        steps = {
            "suspect": status == "Unknown",
            "dead": status == "True",
            "tainted": _is_tainted(cluster, node.name),
            "deleted": not lost & {pod["metadata"]["uid"] for pod in left},
            "bound": sum(is_elsewhere(pod, node.name) for pod in left) >= REPLICAS,
        }
        for step in (step for step, is_seen in steps.items() if is_seen):
            seen.setdefault(step, passed)
        return steps["bound"]

    try:
        cluster.until(all_bound, f"{len(lost)} pods of {node.name} are bound elsewhere", 90)
    except TimeoutError as late:
        raise TimeoutError(
            f"{late}; seen: {seen}; condition of {node.name}: {_condition(cluster, node.name)}"
        ) from late
    node.start(cluster.images)
    cluster.until(lambda: cluster.is_ready(node.name), f"{node.name} is Ready")
    rollout.wait_for_all()
    cluster.until(lambda: not _is_tainted(cluster, node.name), f"{node.name} is not tainted any more")
    cluster.until(StateWatch(cluster).is_whole, "all nodes' reports are seen")
    return seen


def _condition(cluster: Cluster, node: str) -> Mapping[str, str]:
    """What the controller says of the node; nothing before it has found something."""
    conditions = cluster.api.call("GET", f"/api/v1/nodes/{node}")["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == UNREACHABLE_CONDITION), {})


def _is_tainted(cluster: Cluster, node: str) -> bool:
    taints = cluster.api.call("GET", f"/api/v1/nodes/{node}")["spec"].get("taints", [])
    return any(each["key"] == UNREACHABLE_TAINT for each in taints)
