"""Plans the moves that empty nodes ahead of maintenance, bounds and backups kept, and says why a pod cannot go.

Pods are moved one after the other, the hardest first, each to the node with most room. Where that leaves a pod behind
and the cluster is small, everything is tried: every node for every pod, and one pod of another node moved aside first.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.checks import CORDON
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, Uncovered
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.moves.ordering import MAX_GAIN, Ordering, Wish
from leadsman.planning.moves.search import is_bystander
from leadsman.planning.situation import Situation, references
from leadsman.published.moves import LeftOut, MovePlan, PlanOrigin

MAX_NODES_TRIED = 12
"""Everything is tried in a cluster of at most so many nodes: the ways to place pods are the nodes to the power of the
pods."""


class DrainEnd(StrEnum):
    """Says whether the nodes become empty, of pods that are moved at all.

    IMPOSSIBLE: everything was tried. NONE_KEEPS_BACKUPS: the same, but a pod has a backup: without that, or with other
    backups, there may be a way. OUT_OF_TIME: not everything was tried. TOO_LARGE: the cluster is too large to try it.
    """

    EMPTY = "empty"
    IMPOSSIBLE = "impossible"
    NONE_KEEPS_BACKUPS = "none keeps backups"
    OUT_OF_TIME = "out of time"
    TOO_LARGE = "too large"


class DrainPlan(Struct, frozen=True):
    """A plan that empties nodes.

    plan: its `left_out` are the pods that keep a node from being empty, each with the reason.
    staying: pods that stop with their node and are nobody's loss: static pods and those of DaemonSets.
    bound_to: pods elsewhere with a bound to one of the nodes: nobody can measure it while the node is away.
    losing_backups: pods elsewhere that have a backup now, and none without the nodes.
    """

    plan: MovePlan
    end: DrainEnd
    staying: tuple[LeftOut, ...] = ()
    bound_to: tuple[LeftOut, ...] = ()
    losing_backups: tuple[LeftOut, ...] = ()


def plan_drain(
    situation: Situation,
    nodes: Sequence[str],
    backups: BackupSettings | None,
    taken_at: float | None,
    not_after: float | None = None,
    has_time: Callable[[], bool] = lambda: True,
) -> DrainPlan:
    """Returns the moves that empty the nodes. Nothing goes to them, and no backup is on them, as if they were cordoned
    already.

    not_after: Unix seconds after which no move begins. has_time: asked while everything is tried. Raises ValueError
    when there is no such node.
    """
    cluster, nodes = situation.cluster, tuple(dict.fromkeys(nodes))
    if unknown := [node for node in nodes if node not in cluster.nodes]:
        raise ValueError(f"there is no node {', '.join(unknown)}; there are {_some(sorted(cluster.nodes))}")
    # With the taint that Kubernetes adds to a cordoned node: spreads that honor taints no longer count it.
    leaving_nodes = (cluster.nodes[node] for node in nodes)
    cordoned = situation.changed(
        {}, {each.name: replace(each, unschedulable=True, taints=(*each.taints, CORDON)) for each in leaving_nodes}
    )
    pods = [pod for node in nodes for pod in cluster.pods_on(node) if not is_bystander(pod)]
    staying = [pod for pod in pods if pod.mirror or pod.owner_kind == "DaemonSet"]
    leaving = [pod for pod in pods if pod not in staying]
    wishes = [
        Wish(pod.uid, "", f"node {pod.node} is to be empty", MAX_GAIN / sum(pod.node == each.node for each in leaving))
        for pod in sorted(leaving, key=_difficulty)
    ]
    ordered, end = _ordered(cordoned, wishes, backups, frozenset(nodes), has_time)
    plan = MovePlan(
        origin=PlanOrigin.DRAIN,
        taken_at=taken_at,
        moves=tuple(ordered.moves),
        left_out=tuple(_with_advice(each, cluster) for each in ordered.left_out),
        not_after=not_after,
    )
    before = plan_backups(situation, backups) if backups else BackupPlan()
    return DrainPlan(
        plan,
        end,
        tuple(LeftOut(pod.namespace, pod.name, pod.node, _why_stays(pod)) for pod in staying),
        tuple(_bound_to(situation, frozenset(nodes))),
        tuple(_losing_backups(cluster, before, ordered.backups[-1])),
    )


def _ordered(
    cordoned: Situation,
    wishes: Sequence[Wish],
    backups: BackupSettings | None,
    drained: frozenset[str],
    has_time: Callable[[], bool],
) -> tuple[Ordering, DrainEnd]:
    one_after_the_other = Ordering(cordoned, backups, drained)
    if not one_after_the_other.fulfil_in_turn(wishes):
        return one_after_the_other, DrainEnd.EMPTY
    if len(cordoned.cluster.nodes) > MAX_NODES_TRIED:
        return one_after_the_other, DrainEnd.TOO_LARGE
    everything = _Everything(Ordering(cordoned, backups, drained), wishes, drained, has_time)
    if everything.empties():
        return everything.ordering, DrainEnd.EMPTY
    kept = one_after_the_other.backups[0].backups
    tried = DrainEnd.NONE_KEEPS_BACKUPS if kept else DrainEnd.IMPOSSIBLE
    return one_after_the_other, DrainEnd.OUT_OF_TIME if everything.is_late else tried


class _Everything:
    """Tries every node for every pod, in every order, until the nodes are empty.

    is_late: whether the time ended before everything was tried.
    """

    def __init__(
        self, ordering: Ordering, wishes: Sequence[Wish], drained: frozenset[str], has_time: Callable[[], bool]
    ) -> None:
        self.ordering, self.is_late, self._drained, self._has_time = ordering, False, drained, has_time
        self._leaving = tuple(wish for wish in wishes if ordering.is_possible(wish))
        self._failed: set[object] = set()

    def empties(self) -> bool:
        """Makes the moves, if there are any that empty the nodes."""
        return self._leave(self._leaving) or any(map(self._leave_after, self._movable()))

    def _movable(self) -> list[ClusterPod]:
        """Returns pods of other nodes, those that cost least to move first."""
        cluster = self.ordering.cluster
        pods = (pod for pod in cluster.pods.values() if pod.node and pod.node not in self._drained)
        movable = [pod for pod in pods if not is_bystander(pod) and not self.ordering.why_stays(pod)]
        return sorted(movable, key=lambda pod: (pod.priority, pod.requests.memory_bytes, pod.uid))

    def _leave_after(self, aside: ClusterPod) -> bool:
        """Tells whether the pods can leave once this one was moved to some node."""
        name = self.ordering.cluster.pods[self._leaving[0].pod_uid].name
        for node in self.ordering.places(aside):
            before = self.ordering.situation
            if not self._has_time():
                self.is_late = True
                return False
            if self.ordering.move(aside, node, f"it makes room for pod {name}", 0.0):
                self._failed.clear()
                if self._leave(self._leaving):
                    return True
                self.ordering.take_back(before)
        return False

    def _leave(self, leaving: Sequence[Wish]) -> bool:
        """Tells whether all of these pods can leave, as everything is now; makes the moves if they can."""
        if not leaving:
            return True
        cluster = self.ordering.cluster
        placed = (cluster.pods[wish.pod_uid] for wish in self._leaving if wish not in leaving)
        state = frozenset(Counter((_kind(pod), pod.node) for pod in placed).items())
        if state in self._failed or not self._may_fit([cluster.pods[wish.pod_uid] for wish in leaving], cluster):
            return False
        if any(self._leave_by(wish, node, leaving) for wish, node in self._choices(leaving)):
            return True
        self._failed.add(state)
        return False

    def _choices(self, leaving: Sequence[Wish]) -> Iterator[tuple[Wish, str]]:
        """Says which pod goes where next. Of pods that are alike the first goes."""
        pods = self.ordering.cluster.pods
        for wish in {_kind(pods[wish.pod_uid]): wish for wish in reversed(leaving)}.values():
            for node in self.ordering.places(pods[wish.pod_uid]):
                if not self._has_time():
                    self.is_late = True
                    return
                yield wish, node

    def _leave_by(self, wish: Wish, node: str, leaving: Sequence[Wish]) -> bool:
        before = self.ordering.situation
        if not self.ordering.move(self.ordering.cluster.pods[wish.pod_uid], node, wish.reason, wish.gain):
            return False
        if self._leave([each for each in leaving if each is not wish]):
            return True
        self.ordering.take_back(before)
        return False

    def _may_fit(self, pods: Sequence[ClusterPod], cluster: Cluster) -> bool:
        """Tells whether there may be room for all, whatever else is asked of nodes; most tries end here."""
        free = [cluster.free(name) for name in cluster.nodes if name not in self._drained]
        names = sorted({name for pod in pods for name, _ in pod.requests.items()})
        sizes = sorted((_amounts(pod.requests, names) for pod in pods), reverse=True)
        return self._packs(sizes, [_amounts(each, names) for each in free], set())

    def _packs(self, sizes: Sequence[tuple[int, ...]], free: list[tuple[int, ...]], failed: set[object]) -> bool:
        state = (len(sizes), tuple(sorted(free)))
        if not sizes or not self._has_time():
            return True
        if state in failed:
            return False
        first, *others = sizes
        for room in sorted(set(free)):
            if all(have >= want or not want for have, want in zip(room, first, strict=True)):
                after = list(free)
                after[after.index(room)] = tuple(have - want for have, want in zip(room, first, strict=True))
                if self._packs(others, after, failed):
                    return True
        failed.add(state)
        return False


def _kind(pod: ClusterPod) -> object:
    """Returns what pods that are alike have in common: one may take the place of the other."""
    return pod.namespace, pod.owner_uid, tuple(sorted(pod.labels.items())), pod.claims, tuple(pod.requests.items())


def _amounts(of: Resources, names: Sequence[str]) -> tuple[int, ...]:
    return tuple(of.amount(name) for name in names)


def _difficulty(pod: ClusterPod) -> tuple[bool, int, int, str]:
    """Ranks pods: those with bounds come first, then the large ones: they have the fewest places."""
    return not PodInfo.of(pod).has_delay_bounds, -pod.requests.memory_bytes, -pod.requests.cpu_millis, pod.uid


def _with_advice(left: LeftOut, cluster: Cluster) -> LeftOut:
    """Returns what to do about a member of Leadsman's own etcd, which keeps its data on its node and is never moved."""
    pods = (pod for pod in cluster.pods_on(left.node) if (pod.namespace, pod.name) == (left.namespace, left.name))
    of_etcd = {"app.kubernetes.io/part-of": "leadsman", "app.kubernetes.io/component": "etcd"}
    if any(of_etcd.items() <= pod.labels.items() for pod in pods):
        advice = (
            f"{left.why}; it is a member of Leadsman's etcd: once the node is cordoned and the other members are ready,"
            f" run kubectl -n {left.namespace} delete pod {left.name}, and it joins them again from another node"
        )
        return replace(left, why=advice)
    return left


def _why_stays(pod: ClusterPod) -> str:
    if pod.mirror and pod.labels.get("component") == "etcd":
        return (
            "it is a static pod, a member of the cluster's own etcd: see that the others are healthy (etcdctl endpoint "
            "health --cluster) before the node stops"
        )
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
