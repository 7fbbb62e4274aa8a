"""Which nodes may be removed: their pods find other nodes with their bounds kept, and no pod loses its backup.

Nodes are taken away one after another, so all that are named may go together, in their order. Every step is judged by
the code that judges placements and plans backups. A node that is not named may be possible with more moves.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.targets import TargetName
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes
from leadsman.planning.backups.bounds_after_failure import pod_info
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.planner import never_replaced, plan_backups
from leadsman.planning.capacity.judged import with_workloads
from leadsman.planning.capacity.model import CapacityModel

_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class Removal(Struct, frozen=True):
    """A node that was looked at. moves: pod → its new node. reason: why the node must stay; "": it may go."""

    node: str
    moves: Mapping[str, str]
    reason: str = ""


def removals(model: CapacityModel, costs: Mapping[str, float], most: int, backups: bool = True) -> Iterator[Removal]:
    """Looks at `most` nodes: the dearest first, then those that request least of their memory.

    costs: node → what it costs. backups: whether pods that have a backup must keep one.
    """
    cluster, inputs, plan = model.cluster, model.inputs, model.plan
    for node in sorted(cluster.nodes, key=lambda node: _order(cluster, costs, node))[:most]:
        outcome = _without(cluster, inputs, plan, node, model, backups)
        if isinstance(outcome, str):
            yield Removal(node, {}, outcome)
        else:
            moved = [outcome[0].pods[pod.uid] for pod in cluster.pods_on(node) if pod.uid in outcome[0].pods]
            yield Removal(node, {_name(pod): pod.node for pod in moved})
            cluster, inputs, plan = outcome


def _order(cluster: Cluster, costs: Mapping[str, float], node: str) -> tuple[float, float, str]:
    allocatable = max(cluster.nodes[node].allocatable.memory_bytes, 1)
    return -costs.get(node, 0.0), cluster.requested(node).memory_bytes / allocatable, node


def _without(
    cluster: Cluster, inputs: DecisionInputs, plan: BackupPlan, node: str, model: CapacityModel, backups: bool
) -> tuple[Cluster, DecisionInputs, BackupPlan] | str:
    """The cluster without the node, with its pods elsewhere; or why that cannot be."""
    pods = [pod for pod in cluster.pods_on(node) if not (pod.mirror or pod.owner_kind == "DaemonSet")]
    if blocked := next(filter(None, map(_stays, pods)), ""):
        return blocked
    if bound := next((pod for pod in cluster.pods.values() if pod.node != node and _is_bound_to(pod, node)), None):
        return f"pod {_name(bound)} has a delay bound to it"
    left, now = cluster.without_node(node), inputs
    for pod in sorted(pods, key=lambda pod: (-pod.requests.memory_bytes, -pod.requests.cpu_millis, pod.uid)):
        refused = DelayFilter().refusals(pod_info(pod), CandidateNodes.of(left.nodes), now)
        allowed = [each for each in Feasibility(left, pod).nodes if each not in refused]
        fitting = [each for each in allowed if _fits_beside_reserve(left, plan, pod, each)]
        if not fitting:
            why = (
                "none has room beside its reserve" if allowed else "each is refused by its bounds or by kube-scheduler"
            )
            return f"pod {_name(pod)} finds no other node: {why}"
        left = left.with_pod(pod, max(fitting, key=lambda each: (left.free(each).memory_bytes, each)))
        now = with_workloads(left, now)
    if broken := _broken_bound(cluster, inputs, left, now):
        return f"pod {broken} would lose a delay bound"
    if not backups:
        return left, now, plan
    before = {uid: backup.node for uid, backup in plan.backups.items()}
    after = plan_backups(left, now, model.settings, before)
    if lost := sorted(plan.backups.keys() - after.backups.keys()):
        return f"pod {_name(cluster.pods[lost[0]])} would have no backup"
    return left, now, after


def _stays(pod: ClusterPod) -> str:
    if reason := never_replaced(pod):
        return f"pod {_name(pod)} stays: {reason}"
    if pod.annotations.get(_SAFE_TO_EVICT) == "false":
        return f"pod {_name(pod)} must not be evicted ({_SAFE_TO_EVICT})"
    return f"pod {_name(pod)} keeps data on it" if pod.local_volumes else ""


def _is_bound_to(pod: ClusterPod, node: str) -> bool:
    return any(TargetName.of(bound.reference).name == node for bound in valid_bounds(pod_info(pod)))


def _fits_beside_reserve(cluster: Cluster, plan: BackupPlan, pod: ClusterPod, node: str) -> bool:
    free = cluster.free(node)
    return pod.requests.fits(free - plan.reserves[node] if node in plan.reserves else free)


def _broken_bound(before: Cluster, inputs: DecisionInputs, after: Cluster, now: DecisionInputs) -> str:
    """A pod that stayed, whose bound to a workload is kept before and not after."""
    for pod in before.pods.values():
        stayed = pod.uid in after.pods and pod.node and after.pods[pod.uid].node == pod.node
        if (
            stayed
            and pod_info(pod).has_delay_bounds
            and _refuses(after, now, pod)
            and not _refuses(before, inputs, pod)
        ):
            return _name(pod)
    return ""


def _refuses(cluster: Cluster, inputs: DecisionInputs, pod: ClusterPod) -> bool:
    return pod.node in DelayFilter().refusals(pod_info(pod), CandidateNodes.of(cluster.nodes), inputs)


def _name(pod: ClusterPod) -> str:
    return f"{pod.namespace}/{pod.name}"
