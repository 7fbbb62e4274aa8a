"""Plans the moves that empty nodes ahead of maintenance, bounds and backups kept, and says why a pod cannot go."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, Uncovered
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.moves.movable import is_bystander
from leadsman.planning.moves.ordering import MAX_GAIN, Wish, order_moves
from leadsman.planning.situation import Situation, references
from leadsman.published.move_plan import LeftOut, MovePlan, PlanOrigin


class DrainPlan(Struct, frozen=True):
    """How nodes are emptied.

    plan: its `left_out` are the pods that keep a node from being empty, each with the reason.
    staying: pods that stop with their node and are nobody's loss: static pods and those of DaemonSets.
    bound_to: pods elsewhere with a bound to one of the nodes: nobody can measure it while the node is away.
    losing_backups: pods elsewhere that have a backup now, and none without the nodes.
    """

    plan: MovePlan
    staying: tuple[LeftOut, ...] = ()
    bound_to: tuple[LeftOut, ...] = ()
    losing_backups: tuple[LeftOut, ...] = ()


def plan_drain(
    situation: Situation,
    nodes: Sequence[str],
    backups: BackupSettings | None,
    taken_at: float | None,
    not_after: float | None = None,
) -> DrainPlan:
    """The moves that empty the nodes. Nothing goes to them, and no backup is on them, as if they were cordoned already.

    not_after: Unix seconds after which no move begins. ValueError when there is no such node.
    """
    cluster = situation.cluster
    if unknown := [node for node in nodes if node not in cluster.nodes]:
        raise ValueError(f"there is no node {', '.join(unknown)}; there are {_some(sorted(cluster.nodes))}")
    cordoned = situation.changed({}, {node: replace(cluster.nodes[node], unschedulable=True) for node in nodes})
    pods = [pod for node in nodes for pod in cluster.pods_on(node) if not is_bystander(pod)]
    staying = [pod for pod in pods if pod.mirror or pod.owner_kind == "DaemonSet"]
    leaving = [pod for pod in pods if pod not in staying]
    wishes = [
        Wish(pod.uid, "", f"node {pod.node} is to be empty", MAX_GAIN / sum(pod.node == each.node for each in leaving))
        for pod in sorted(leaving, key=_difficulty)
    ]
    ordered = order_moves(cordoned, wishes, backups, frozenset(nodes))
    plan = MovePlan(
        origin=PlanOrigin.DRAIN,
        taken_at=taken_at,
        moves=ordered.moves,
        left_out=ordered.left_out,
        not_after=not_after,
    )
    before = plan_backups(situation, backups) if backups else BackupPlan()
    return DrainPlan(
        plan,
        tuple(LeftOut(pod.namespace, pod.name, pod.node, _why_stays(pod)) for pod in staying),
        tuple(_bound_to(situation, frozenset(nodes))),
        tuple(_losing_backups(cluster, before, ordered.backups[0])),
    )


def _difficulty(pod: ClusterPod) -> tuple[bool, int, int, str]:
    """Pods with bounds come first, then the large ones: they have the fewest places."""
    return not PodInfo.of(pod).has_delay_bounds, -pod.requests.memory_bytes, -pod.requests.cpu_millis, pod.uid


def _why_stays(pod: ClusterPod) -> str:
    if pod.mirror:
        return "it is a static pod, which only its own kubelet runs"
    return "it belongs to a DaemonSet, which has a pod on every node"


def _bound_to(situation: Situation, nodes: frozenset[str]) -> list[LeftOut]:
    return [
        LeftOut(pod.namespace, pod.name, pod.node, f"it has a delay bound to node {name}")
        for pod in situation.bounded.values()
        if not is_bystander(pod)
        for name in sorted({name for _, name in references(pod)} & nodes)
    ]


def _losing_backups(cluster: Cluster, before: BackupPlan, without: BackupPlan) -> list[LeftOut]:
    lost = []
    for uid in sorted(before.backups.keys() - without.backups.keys()):
        pod, why = cluster.pods[uid], without.pods.get(uid)
        reason = why.reason if isinstance(why, Uncovered) else "no node can be its backup"
        lost.append(LeftOut(pod.namespace, pod.name, pod.node, f"it has no backup without the node: {reason}"))
    return lost


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
