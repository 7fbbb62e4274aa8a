"""One step of recovery: from verdicts, cluster and backups to actions. Called again and again, it goes on by itself.

For each dead node, in this order, and each step only when the API server shows the one before:

1. It is decided whether anything may be done. The spent budget and the refusal are in the state, which both
   extenders follow, before anything else happens.
2. The node is tainted, so that schedulers without our extender bind nothing there either.
3. Pod by pod, by priority: room on the backup node is released and held for the pod's owner, and the pod is deleted.

Nothing moves back when the node returns: it is only let in again.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.planning.recovery.model import (
    UNREACHABLE_TAINT,
    DeletePod,
    NodeCondition,
    ObservedNode,
    RecoveryAction,
    RecoveryBudget,
    RecoveryPlan,
    ReleaseRoom,
    TaintNode,
    UntaintNode,
)
from leadsman.planning.recovery.reasons import why_stays, why_withheld
from leadsman.published.self_healing import DeadNode, Hold, PodRecovery, RecoveryState


class BackupsByPod(Struct, frozen=True):
    """What the backup plan says, by UID of bounded pods.

    nodes: of the covered pods, the node that is to take each.
    uncovered: of the others, why there is none.
    """

    nodes: Mapping[str, str]
    uncovered: Mapping[str, str]


def plan_recovery(
    nodes: Mapping[str, ObservedNode],
    cluster: Cluster,
    backups: BackupsByPod,
    state: RecoveryState,
    budget: RecoveryBudget,
    now: float,
) -> RecoveryPlan:
    """What to do now. Execute the actions in order, and only after the plan's state is written."""
    state = replace(
        state,
        spent=tuple(min(at, now) for at in state.spent if now - at < budget.window_seconds),
        holds=tuple(hold for hold in state.holds if hold.until > now),
    )
    state = _admit_dead(nodes, cluster, state, budget, now)
    step = _Step(cluster, backups, budget, now)
    dead = {name: step.take(name, recovery, nodes.get(name)) for name, recovery in state.dead.items()}
    for name, node in cluster.nodes.items():
        if name not in state.dead:
            step.let_in(node, "no failover of it is known")
    going_on = {name: recovery for name, recovery in dead.items() if recovery is not None}
    bound = {uid for each in going_on.values() for uid, pod in each.pods.items() if pod.bound_at is not None}
    holds = tuple(hold for hold in (*state.holds, *step.holds) if hold.pod_uid not in bound)
    state = replace(state, dead=going_on, holds=holds)
    return RecoveryPlan(tuple(step.actions), state, step.stays)


class _Step:
    """One step in the making."""

    def __init__(self, cluster: Cluster, backups: BackupsByPod, budget: RecoveryBudget, now: float) -> None:
        self._cluster, self._backups, self._budget, self._now = cluster, backups, budget, now
        self.actions: list[RecoveryAction] = []
        self.holds: list[Hold] = []
        self.stays: dict[str, str] = {}

    def take(self, name: str, recovery: DeadNode, observed: ObservedNode | None) -> DeadNode | None:
        """The next step for one dead node; None: it is over."""
        node = self._cluster.nodes.get(name)
        if node is None:
            return None
        if node.uid != recovery.uid:
            self.let_in(node, "it is another node of the same name")
            return None
        recovery = _with_progress(recovery, observed, self._cluster, self._now)
        if recovery.healthy_since is not None:
            if self._now - recovery.healthy_since < self._budget.return_seconds:
                return recovery
            self.let_in(node, "the node is healthy again")
            return None
        if not _has_taint(node):
            self.actions.append(TaintNode(name, node.uid, recovery.reason))
            return recovery
        recovery = replace(recovery, tainted_at=recovery.tainted_at or self._now)
        for pod, why_it_stays in _bounded_pods(node, self._cluster, self._backups):
            if why_it_stays:
                self.stays[pod.uid] = why_it_stays
            else:
                recovery = self._recover(pod, recovery)
        return recovery

    def let_in(self, node: ClusterNode, reason: str) -> None:
        """Removes our taint from the node."""
        if _has_taint(node):
            self.actions.append(UntaintNode(node.name, node.uid, reason))

    def _recover(self, pod: ClusterPod, recovery: DeadNode) -> DeadNode:
        backup, name = self._backups.nodes[pod.uid], f"{pod.namespace}/{pod.name}"
        until = self._now + self._budget.hold_seconds
        self.holds.append(Hold(backup, pod.owner_uid, pod.requests, until, pod.uid))
        self.actions.append(ReleaseRoom(backup, pod.requests, f"for pod {name}, whose node {pod.node} is dead"))
        reason = f"node {pod.node} is dead; its backup is node {backup}"
        self.actions.append(DeletePod(pod.uid, pod.namespace, pod.name, pod.node, reason))
        return _record_deletion(recovery, pod, backup, self._cluster, self._now)


def _admit_dead(
    nodes: Mapping[str, ObservedNode], cluster: Cluster, state: RecoveryState, budget: RecoveryBudget, now: float
) -> RecoveryState:
    """Takes up the dead nodes that the budget allows, those that died first before the others."""
    dead, spent, withheld = dict(state.dead), list(state.spent), dict[str, str]()
    found = [name for name, node in nodes.items() if node.condition is NodeCondition.DEAD and name not in dead]
    for name in sorted(found, key=lambda each: (nodes[each].dead_at or now, each)):
        observed = nodes[name]
        if reason := why_withheld(name, nodes, cluster, len(spent), budget, now):
            withheld[name] = reason
            continue
        spent.append(now)
        uid = cluster.nodes[name].uid
        dead_at = observed.dead_at or now
        dead[name] = DeadNode(uid, observed.reason, observed.first_lost_at, observed.suspect_at, dead_at)
    refused = {name: node.reason for name, node in dead.items()}
    for name, node in nodes.items():
        if node.condition is not NodeCondition.HEALTHY and name not in refused:
            # The first reason stays: it has ages that grow, and each change of the state is a write.
            refused[name] = state.refused.get(name, node.reason)
    return replace(state, dead=dead, spent=tuple(spent), withheld=withheld, refused=refused)


def _with_progress(recovery: DeadNode, observed: ObservedNode | None, cluster: Cluster, now: float) -> DeadNode:
    """With what the API server shows of the node's return and of the pods that were made again."""
    healthy = observed is not None and observed.condition is NodeCondition.HEALTHY and observed.fresh
    healthy_since = (recovery.healthy_since or now) if healthy else None
    replacements = _replacements(recovery, cluster)
    pods = {uid: _with_replacement(pod, replacements(pod), now) for uid, pod in recovery.pods.items()}
    return replace(recovery, healthy_since=healthy_since, pods=pods)


def _replacements(recovery: DeadNode, cluster: Cluster) -> Callable[[PodRecovery], ClusterPod | None]:
    """For each recovered pod in turn, a pod of its owner that was not there before: its own once it has one."""
    taken = {pod.replacement for pod in recovery.pods.values() if pod.replacement}
    owners = {pod.owner_uid for pod in recovery.pods.values()}
    made = [
        pod
        for pod in cluster.pods.values()
        if pod.owner_uid in owners and pod.uid not in recovery.pods and not pod.terminating and pod.node
    ]

    def of(recovered: PodRecovery) -> ClusterPod | None:
        for pod in made:
            if pod.owner_uid == recovered.owner_uid and pod.name == recovered.replacement:
                return pod
        if recovered.replacement:
            return None
        for pod in made:
            if (
                pod.owner_uid == recovered.owner_uid
                and pod.name not in taken
                and pod.created_at > recovered.newest_sibling_at
            ):
                taken.add(pod.name)
                return pod
        return None

    return of


def _with_replacement(pod: PodRecovery, found: ClusterPod | None, now: float) -> PodRecovery:
    if found is None:
        return pod
    running_at = pod.running_at or (now if found.ready else None)
    return replace(
        pod, replacement=found.name, replaced_on=found.node, bound_at=pod.bound_at or now, running_at=running_at
    )


def _bounded_pods(node: ClusterNode, cluster: Cluster, backups: BackupsByPod) -> Iterator[tuple[ClusterPod, str]]:
    """The bounded pods on the node by priority, and why each stays; "": it goes."""
    for pod in sorted(cluster.pods_on(node.name), key=lambda each: (-each.priority, each.namespace, each.name)):
        if pod.terminating or (pod.uid not in backups.nodes and pod.uid not in backups.uncovered):
            continue
        uncovered = backups.uncovered.get(pod.uid, "")
        yield pod, why_stays(pod, node, cluster, backups.nodes.get(pod.uid), uncovered)


def _record_deletion(recovery: DeadNode, pod: ClusterPod, backup: str, cluster: Cluster, now: float) -> DeadNode:
    siblings = (each for each in cluster.pods.values() if each.owner_uid == pod.owner_uid)
    newest = max(each.created_at for each in siblings)
    recovered = PodRecovery(pod.namespace, pod.name, pod.owner_uid, backup, now, newest)
    return replace(recovery, pods={**recovery.pods, pod.uid: recovered})


def _has_taint(node: ClusterNode) -> bool:
    return any(taint.key == UNREACHABLE_TAINT for taint in node.taints)
