"""Orders moves so that every prefix is safe: capacity with the reserves of backups, bounds, budgets, covered pods.

Moves are applied to the cluster one after the other. One is next when its pod may go to its node as the cluster is
then, and every pod that had a backup has one afterwards. A cycle, in which each pod waits for the room of another, is
left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec import Struct

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import plan_after_move, plan_backups, without_placeholders
from leadsman.planning.moves.search import Search, why_not_moved
from leadsman.planning.situation import Situation, counted, with_workloads_of
from leadsman.published.moves import LeftOut, PlannedMove

EVICTION_COST = 1.0
"""Points of cost that every move has: its pod is away for as long as the new one takes to start."""

MAX_GAIN = 10.0
"""Points of the best gain that there is."""

ALONE_COST = 1.0
"""A move costs this much more where no other pod of the owner is ready meanwhile."""

NO_BACKUP_LEFT = "another pod would have no backup"

MAX_PLACES_TRIED = 20
"""Nodes that are tried for a pod that may go anywhere: each asks for the backups of all pods."""


class Wish(Struct, frozen=True):
    """A pod that is to be moved.

    to_node: where to; "": anywhere that the pod may be.
    gain: in points.
    """

    pod_uid: str
    to_node: str
    reason: str
    gain: float = 0.0


def order_moves(
    situation: Situation, wishes: Sequence[Wish], backups: BackupSettings | None, avoid: frozenset[str] = frozenset()
) -> "Ordering":
    """Returns the order of the wishes that can be fulfilled, in which each is valid, those wished first where that is
    free.

    backups: of bounded pods, which are kept at each step; None: there are none, and placeholders are ordinary pods.
    avoid: nodes that nothing goes to, beside those that self-healing refuses.
    """
    ordering = Ordering(situation, backups, avoid)
    ordering.fulfil_in_turn(wishes)
    return ordering


def move_cost(pod: ClusterPod, cluster: Cluster) -> float:
    """Returns points: for an eviction, the pod's largest share of its node, and more where it is its owner's only ready
    pod."""
    allocatable = cluster.nodes[pod.node].allocatable
    share = max((amount / max(allocatable.amount(name), 1) for name, amount in pod.requests.items()), default=0.0)
    of_owner = cluster.pods.of_base("by owner", _by_owner).get(pod.owner_uid, ())
    siblings = (cluster.pods.get(uid) for uid in chain(of_owner, cluster.pods.changes) if uid != pod.uid)
    alone = not any(each and each.owner_uid == pod.owner_uid and each.ready for each in siblings)
    return round(EVICTION_COST + share + ALONE_COST * alone, 3)


def _by_owner(pods: Mapping[str, ClusterPod]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for pod in pods.values():
        found.setdefault(pod.owner_uid, []).append(pod.uid)
    return found


class Ordering:
    """The order in the making, whose last moves can be taken back.

    situation: after the moves so far; without placeholders where backups are kept.
    moves: so far. backups: before the first and after each. left_out: pods that are not moved.
    """

    def __init__(self, situation: Situation, settings: BackupSettings | None, avoid: frozenset[str]) -> None:
        self._before, self._settings = situation.cluster, settings
        self._avoid = avoid.union(situation.inputs.self_healing.refused)
        cluster = without_placeholders(situation.cluster) if settings else situation.cluster
        self.situation = situation.on(cluster, with_workloads_of(cluster, situation.inputs))
        self.moves: list[PlannedMove] = []
        self.left_out: list[LeftOut] = []
        self.backups = [plan_backups(self.situation, settings) if settings else BackupPlan()]
        self._look()

    @property
    def cluster(self) -> Cluster:
        """Returns the cluster after the moves so far."""
        return self.situation.cluster

    def fulfil_in_turn(self, wishes: Sequence[Wish]) -> Sequence[Wish]:
        """Moves a pod wherever one can be moved, until none can. The wishes that are left, of which it says why."""
        blocked, waiting = [wish for wish in wishes if self.is_possible(wish)], list[Wish]()
        while len(blocked) != len(waiting):
            waiting = blocked
            blocked = [wish for wish in waiting if not self.fulfil(wish)]
        for wish in waiting:
            self.leave_out(wish)
        return waiting

    def is_possible(self, wish: Wish) -> bool:
        """Tells whether its pod is ever moved, and may be evicted now; if not, says why."""
        pod = self.cluster.pods.get(wish.pod_uid)
        if pod is None or not pod.node or pod.terminating:
            name = (pod.namespace, pod.name, pod.node) if pod else ("", wish.pod_uid, "")
            self.left_out.append(LeftOut(*name, "it has no node, or is gone"))
            return False
        if pod.node == wish.to_node:
            return False
        if why := self.why_stays(pod):
            self.left_out.append(LeftOut(pod.namespace, pod.name, pod.node, why))
        return not why

    def why_stays(self, pod: ClusterPod) -> str:
        """Says why the pod is never moved, or not now; "": it may be."""
        return why_not_moved(pod, self._before)

    def places(self, pod: ClusterPod) -> Iterator[str]:
        """Returns the nodes that may take the pod now, if no other one loses its backup."""
        return self._search.places(pod)

    def fulfil(self, wish: Wish) -> bool:
        """Moves its pod, if there is a place that is safe."""
        pod = self.cluster.pods[wish.pod_uid]
        for node in (wish.to_node,) if wish.to_node else islice(self._search.places(pod), MAX_PLACES_TRIED):
            if not self._why_not(pod, node) and self.move(pod, node, wish.reason, wish.gain):
                return True
        return False

    def take_back(self, before: Situation) -> None:
        """Takes the last move back. before: the situation then."""
        self.situation = before
        self.moves.pop()
        self.backups.pop()
        self._look()

    def leave_out(self, wish: Wish) -> None:
        """Says why its pod stays."""
        pod = self.cluster.pods[wish.pod_uid]
        if wish.to_node:
            why = self._why_not(pod, wish.to_node) or self._lost_backup(pod, wish.to_node)
        else:
            kinds = self._beside_reserves.verdict(pod).kinds(but=self._avoid)
            others = (node for node in self.cluster.nodes if node != pod.node)
            why = counted({node: kinds.get(node) or self._why_not(pod, node) or NO_BACKUP_LEFT for node in others})
        self.left_out.append(LeftOut(pod.namespace, pod.name, pod.node, why))

    def move(self, pod: ClusterPod, node: str, reason: str, gain: float) -> bool:
        """Moves the pod unless another one would lose its backup."""
        after = self.situation.with_pod(pod, node)
        plan = self._backups_of(after, pod.uid)
        if not plan.backups.keys() >= self.backups[-1].backups.keys():
            return False
        self.moves.append(
            PlannedMove(
                pod_uid=pod.uid,
                namespace=pod.namespace,
                name=pod.name,
                from_node=pod.node,
                to_node=node,
                to_node_uid=self.cluster.nodes[node].uid,
                reason=reason,
                gain=round(gain, 3),
                cost=move_cost(pod, self.cluster),
            )
        )
        self.backups.append(plan)
        self.situation = after
        self._look()
        return True

    def _why_not(self, pod: ClusterPod, node: str) -> str:
        """Says why the pod may not go to the node as everything is now; "": it may, as far as backups allow it."""
        if node not in self.cluster.nodes:
            return f"node {node} does not exist"
        if node in self._avoid:
            return f"nothing goes to node {node}"
        return self._beside_reserves.verdict(pod).why_not(node) or self.situation.lost_bound({pod.uid: node})

    def _lost_backup(self, pod: ClusterPod, node: str) -> str:
        """Says which pod would lose its backup if this one went to the node."""
        after = self.situation.with_pod(pod, node)
        plan = self._backups_of(after, pod.uid)
        lost = sorted(self.backups[-1].backups.keys() - plan.backups.keys())
        names = (f"{self.cluster.pods[uid].namespace}/{self.cluster.pods[uid].name}" for uid in lost)
        return f"pod {next(names)} would have no backup" if lost else ""

    def _backups_of(self, after: Situation, moved: str) -> BackupPlan:
        """After the pod of this UID was moved."""
        if self._settings is None:
            return BackupPlan()
        return plan_after_move(self.backups[-1], after.cluster.pods[moved], after, self._settings)

    def _look(self) -> None:
        """Makes what is asked of the cluster as it is now."""
        self._beside_reserves = self.situation.holding(self.backups[-1].reserves)
        self._search = Search(self._beside_reserves, lambda *_: False, self._avoid)
