"""Which nodes may be removed: their pods find other nodes with their bounds kept, and no pod loses its backup.

Nodes are taken away one after another, so all that are named may go together, in their order. Every step is judged by
the code that judges placements and plans backups. A node that is not named may be possible with more moves.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.planner import never_replaced, plan_backups
from leadsman.planning.capacity.model import CapacityModel
from leadsman.planning.situation import Situation, references

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
    situation, plan = model.situation, model.plan
    cluster = situation.cluster
    for node in sorted(cluster.nodes, key=lambda node: _order(cluster, costs, node))[:most]:
        outcome = _without(situation, plan, node, model, backups)
        if isinstance(outcome, str):
            yield Removal(node, {}, outcome)
        else:
            pods = outcome[0].cluster.pods
            moved = [pods[pod.uid] for pod in situation.cluster.pods_on(node) if pod.uid in pods]
            yield Removal(node, {_name(pod): pod.node for pod in moved})
            situation, plan = outcome


def _order(cluster: Cluster, costs: Mapping[str, float], node: str) -> tuple[float, float, str]:
    allocatable = max(cluster.nodes[node].allocatable.memory_bytes, 1)
    return -costs.get(node, 0.0), cluster.requested(node).memory_bytes / allocatable, node


def _without(
    situation: Situation, plan: BackupPlan, node: str, model: CapacityModel, backups: bool
) -> tuple[Situation, BackupPlan] | str:
    """The situation without the node, with its pods elsewhere; or why that cannot be."""
    there = situation.cluster.pods_on(node)
    pods = [pod for pod in there if not (pod.mirror or pod.owner_kind == "DaemonSet")]
    if blocked := next(filter(None, map(_stays, pods)), ""):
        return blocked
    bounded = situation.bounded.values()
    if bound := next((pod for pod in bounded if pod.node != node and _is_bound_to(pod, node)), None):
        return f"pod {_name(bound)} has a delay bound to it"
    left = _put(pods, situation.changed({pod.uid: None for pod in there}, {node: None}), plan)
    if isinstance(left, str):
        return left
    for pod in pods:
        if lost := situation.bound_lost_by(pod, left):
            return f"pod {_name(lost)} would lose a delay bound"
    if not backups:
        return left, plan
    before = {uid: backup.node for uid, backup in plan.backups.items()}
    after = plan_backups(left, model.settings, before)
    if lost_backups := sorted(plan.backups.keys() - after.backups.keys()):
        return f"pod {_name(situation.cluster.pods[lost_backups[0]])} would have no backup"
    return left, after


def _put(pods: Sequence[ClusterPod], left: Situation, plan: BackupPlan) -> Situation | str:
    """The situation with these pods in it, each where most memory is free; or which of them finds no node."""
    for pod in sorted(pods, key=lambda pod: (-pod.requests.memory_bytes, -pod.requests.cpu_millis, pod.uid)):
        allowed = left.verdict(pod).nodes
        fitting = [each for each in allowed if _fits_beside_reserve(left.cluster, plan, pod, each)]
        if not fitting:
            why = (
                "none has room beside its reserve" if allowed else "each is refused by its bounds or by kube-scheduler"
            )
            return f"pod {_name(pod)} finds no other node: {why}"
        left = left.with_pod(pod, max(fitting, key=lambda each: (left.cluster.free(each).memory_bytes, each)))
    return left


def _stays(pod: ClusterPod) -> str:
    if reason := never_replaced(pod):
        return f"pod {_name(pod)} stays: {reason}"
    if pod.annotations.get(_SAFE_TO_EVICT) == "false":
        return f"pod {_name(pod)} must not be evicted ({_SAFE_TO_EVICT})"
    return f"pod {_name(pod)} keeps data on it" if pod.local_volumes else ""


def _is_bound_to(pod: ClusterPod, node: str) -> bool:
    return any(name == node for _, name in references(pod))


def _fits_beside_reserve(cluster: Cluster, plan: BackupPlan, pod: ClusterPod, node: str) -> bool:
    free = cluster.free(node)
    return pod.requests.fits(free - plan.reserves[node] if node in plan.reserves else free)


def _name(pod: ClusterPod) -> str:
    return f"{pod.namespace}/{pod.name}"
