"""Plans one step of recovery from dead nodes: from verdicts, cluster and backups to actions. Called again and again, it
goes on by itself.

For each dead node, in this order, and each step only when the API server shows the one before:

1. It is decided whether anything may be done. The spent budget and the refusal are in the state, which both
   extenders follow, before anything else happens.
2. The node is tainted, so that schedulers without our extender bind nothing there either.
3. Pod by pod, by priority: room on the backup node is held for the pod's owner, the pod is deleted, and the room is
   released.

Nothing moves back when the node returns: it is only let in again. What a step remembers is published in
`leadsman.published.self_healing`.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.kube.names import DOMAIN, FAILOVER_ANNOTATION
from leadsman.planning.failover.node_verdict import NodeHealth, NodeVerdict, Truth
from leadsman.published.self_healing import DeadNode, Hold, PodBackup, PodRecovery, RecoveryState

UNREACHABLE_TAINT = f"{DOMAIN}/unreachable"


class RecoveryBudget(Struct, frozen=True):
    """Limits of how much recovery may do, and how fast.

    least_nodes, nodes_ratio: nodes that may be failed over within `window_seconds`: the larger of the two.
    silent_zone_ratio: nothing is done in a zone of which more than this share is not healthy.
    fresh_ratio: nothing is done while a smaller share of all agents reports.
    hold_seconds: how long released room is kept for the pod that it was released for.
    return_seconds: how long a node must be healthy again before its taint goes.
    """

    least_nodes: int = 1
    nodes_ratio: float = 0.1
    window_seconds: float = 600.0
    silent_zone_ratio: float = 0.5
    fresh_ratio: float = 0.5
    hold_seconds: float = 60.0
    return_seconds: float = 15.0


FAILOVER_OFF = RecoveryBudget(least_nodes=0, nodes_ratio=0.0)


class TaintNode(Struct, frozen=True):
    """Adds the taint to the node with this UID."""

    node: str
    uid: str
    reason: str


class UntaintNode(Struct, frozen=True):
    """Remove the taint from the node."""

    node: str
    uid: str
    reason: str


class DeletePod(Struct, frozen=True):
    """Delete the pod with this UID, with its own grace period, so that its owner makes another one. Once it is being
    deleted, the placeholders on its backup make room for what it requests."""

    uid: str
    namespace: str
    name: str
    node: str
    backup: str
    requests: Resources
    reason: str


RecoveryAction = TaintNode | UntaintNode | DeletePod


class RecoveryPlan(Struct, frozen=True):
    """Actions of recovery, to be done now and in this order once `state` is written.

    stays: UID → why a pod of a dead node is not deleted.
    """

    actions: tuple[RecoveryAction, ...]
    state: RecoveryState
    stays: Mapping[str, str]


OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
"""Somebody vouches that the node is off: its volumes may be detached (KEP-2268)."""

SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"

REPLACED_ELSEWHERE = frozenset({"ReplicaSet", "ReplicationController"})
"""Owners that make a new pod at once when one is being deleted, under another name."""


def why_withheld(
    name: str, nodes: Mapping[str, NodeVerdict], cluster: Cluster, spent: int, budget: RecoveryBudget
) -> str:
    """Says why the dead node may not be taken up; "": it may. spent: nodes failed over within the window."""
    allowed = allowed_nodes(len(nodes), budget)
    if reason := why_left_alone(name, nodes, cluster, budget):
        return reason
    return f"nodes failed over in {budget.window_seconds:g} s: {spent} of {allowed} allowed" if spent >= allowed else ""


def why_left_alone(name: str, nodes: Mapping[str, NodeVerdict], cluster: Cluster, budget: RecoveryBudget) -> str:
    """Says why nothing may be done about the dead node, also where it was taken up before; "": it may.

    The alert LeadsmanFailoverWithheld knows by their words the reasons that people chose."""
    if not allowed_nodes(len(nodes), budget):
        return "failover is off"
    node = cluster.nodes.get(name)
    if node is None:
        return f"node {name} was deleted"
    return _node_says_no(node) or _cluster_says_no(name, nodes, budget)


def _node_says_no(node: ClusterNode) -> str:
    if node.annotations.get(FAILOVER_ANNOTATION) == "off":
        return f"annotation {FAILOVER_ANNOTATION} is off"
    if node.unschedulable and not _is_out_of_service(node):  # remediators cordon it first
        return "it is cordoned: somebody works on it"
    if any(taint.key == SHUTDOWN_TAINT for taint in node.taints):
        return "it is being shut down"
    return ""


def _is_out_of_service(node: ClusterNode) -> bool:
    return any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.taints)


def _cluster_says_no(name: str, nodes: Mapping[str, NodeVerdict], budget: RecoveryBudget) -> str:
    fresh = sum(each.reports for each in nodes.values())
    if fresh < budget.fresh_ratio * len(nodes):
        return f"only {fresh} of {len(nodes)} agents report"
    named = nodes[name].location.zone if name in nodes else ""
    zone = [each for each in nodes.values() if each.location.zone == named]
    silent = sum(each.state is not NodeHealth.HEALTHY for each in zone)
    if named and len(zone) > 1 and silent > budget.silent_zone_ratio * len(zone):
        return f"{silent} of {len(zone)} nodes of zone {named} are not healthy"
    return ""


def allowed_nodes(nodes: int, budget: RecoveryBudget) -> int:
    """Says how many nodes may be failed over within the window."""
    return max(budget.least_nodes, int(budget.nodes_ratio * nodes))


def why_stays(pod: ClusterPod, node: ClusterNode, cluster: Cluster, backup: PodBackup) -> str:
    """Says why a bounded pod of a dead node is not deleted; "": it may be."""
    asked = pod.annotations.get(FAILOVER_ANNOTATION, "")
    if asked == "off":
        return f"its annotation {FAILOVER_ANNOTATION} is off"
    if pod.mirror:
        return "it is a static pod"
    out_of_service = _is_out_of_service(node)
    if pod.owner_kind == "StatefulSet" and not out_of_service:
        return f"a StatefulSet's pod must not run twice; set {OUT_OF_SERVICE_TAINT} once the node is off"
    if pod.owner_kind == "Job" and asked != "on":
        return f"a Job may lose its work; annotation {FAILOVER_ANNOTATION}: on allows it"
    if pod.owner_kind not in (*REPLACED_ELSEWHERE, "StatefulSet", "Job"):
        return f"its owner is a {pod.owner_kind}" if pod.owner_kind else "it has no controller that would make it again"
    claims = (cluster.storage.claims.get((pod.namespace, name)) for name in pod.claims)
    single = next((claim.name for claim in claims if claim is not None and claim.single_node), "")
    if single and not out_of_service:
        return f"claim {single} can be attached to one node only; set {OUT_OF_SERVICE_TAINT} once the node is off"
    return f"it has no backup: {backup.reason}" if backup.reason else ""


def plan_recovery(
    nodes: Mapping[str, NodeVerdict],
    cluster: Cluster,
    backups: Mapping[str, PodBackup],
    state: RecoveryState,
    budget: RecoveryBudget,
    now: float,
) -> RecoveryPlan:
    """Returns what to do now. Execute the actions in order, and only after the plan's state is written.

    nodes: the verdict on each, with its times in Unix seconds. backups: of bounded pods, by UID.
    """
    told = state.withheld
    state = replace(
        state,
        spent=tuple(min(at, now) for at in state.spent if now - at < budget.window_seconds),
        # As long as promised, also where another leader's clock was ahead.
        holds=tuple(
            replace(hold, until=min(hold.until, now + budget.hold_seconds)) for hold in state.holds if hold.until > now
        ),
    )
    state = _admit_dead(nodes, cluster, state, budget, now)
    step = _Step(nodes, cluster, backups, state.holds, budget, now)
    dead = {name: step.take(name, recovery) for name, recovery in state.dead.items()}
    for name, node in cluster.nodes.items():
        if name not in state.dead:
            step.let_in(node, "no failover of it is known")
    going_on = {name: recovery for name, recovery in dead.items() if recovery is not None}
    bound = {uid for each in going_on.values() for uid, pod in each.pods.items() if pod.bound_at is not None}
    holds = tuple(hold for hold in (*state.holds, *step.holds) if hold.pod_uid not in bound)
    going_on = {name: _without_ended(each, cluster, now - budget.window_seconds) for name, each in going_on.items()}
    withheld = steady({**state.withheld, **step.withheld}, told)
    state = replace(state, dead=going_on, holds=holds, withheld=withheld)
    return RecoveryPlan(tuple(step.actions), state, step.stays)


def steady(reasons: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Returns the reasons as they were told before where only numbers in them changed.

    A count of silent nodes changes with each of them, and each new text is a write, an Event and a series of metrics,
    which an alert must see for a minute."""
    return {
        name: told[name] if _without_numbers(told.get(name, "")) == _without_numbers(reason) else reason
        for name, reason in reasons.items()
    }


def _without_numbers(reason: str) -> str:
    return re.sub(r"\d+", "", reason)


class _Step:
    """One step in the making."""

    def __init__(
        self,
        nodes: Mapping[str, NodeVerdict],
        cluster: Cluster,
        backups: Mapping[str, PodBackup],
        holds: tuple[Hold, ...],
        budget: RecoveryBudget,
        now: float,
    ) -> None:
        """holds: those that last."""
        self._nodes, self._cluster, self._backups, self._budget, self._now = nodes, cluster, backups, budget, now
        self._held = {(hold.pod_uid, hold.node) for hold in holds if hold.until - now >= budget.hold_seconds / 2}
        self.actions: list[RecoveryAction] = []
        self.holds: list[Hold] = []
        self.stays: dict[str, str] = {}
        self.withheld: dict[str, str] = {}

    def take(self, name: str, recovery: DeadNode) -> DeadNode | None:
        """Returns the next step for one dead node; None: it is over."""
        node, observed = self._cluster.nodes.get(name), self._nodes.get(name)
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
        if reason := why_left_alone(name, self._nodes, self._cluster, self._budget):
            self.withheld[name] = reason
            return recovery
        if not _has_taint(node):
            self.actions.append(TaintNode(name, node.uid, recovery.reason))
            return recovery
        recovery = replace(recovery, tainted_at=recovery.tainted_at or self._now)
        if observed is None or observed.state is NodeHealth.HEALTHY or recovery.alive_at is not None:
            return recovery  # It gave a sign of life, or a new leader knows nothing of it yet: nothing more is taken.
        return self._recover_pods(node, recovery)

    def let_in(self, node: ClusterNode, reason: str) -> None:
        """Removes our taint from the node."""
        if _has_taint(node):
            self.actions.append(UntaintNode(node.name, node.uid, reason))

    def _recover_pods(self, node: ClusterNode, recovery: DeadNode) -> DeadNode:
        bounded = [pod for pod in self._cluster.pods_on(node.name) if pod.uid in self._backups and not pod.terminating]
        for pod in sorted(bounded, key=lambda each: (-each.priority, each.namespace, each.name)):
            if reason := why_stays(pod, node, self._cluster, self._backups[pod.uid]):
                self.stays[pod.uid] = reason
            else:
                recovery = self._recover(pod, recovery)
        return recovery

    def _recover(self, pod: ClusterPod, recovery: DeadNode) -> DeadNode:
        backup, before, since = self._backups[pod.uid].node, recovery.pods.get(pod.uid), self._now
        hold_seconds = self._budget.hold_seconds
        if (pod.uid, backup) not in self._held:
            if before is not None and before.backup == backup and since - before.deleted_at < hold_seconds:
                return recovery  # Its deletion fails: the backup, whose placeholders stay, takes others for a while.
            self.holds.append(Hold(backup, pod.owner_uid, pod.requests, since + hold_seconds, pod.uid))
        elif before is not None:
            since = before.deleted_at
        reason = f"node {pod.node} is dead; its backup is node {backup}"
        self.actions.append(DeletePod(pod.uid, pod.namespace, pod.name, pod.node, backup, pod.requests, reason))
        return _record_deletion(recovery, pod, backup, self._cluster, since)


def _admit_dead(
    nodes: Mapping[str, NodeVerdict], cluster: Cluster, state: RecoveryState, budget: RecoveryBudget, now: float
) -> RecoveryState:
    """Takes up the dead nodes that the budget allows, those that died first before the others."""
    dead, spent, withheld = dict(state.dead), list(state.spent), dict[str, str]()
    found = [name for name, node in nodes.items() if node.state is NodeHealth.DEAD and name not in dead]
    for name in sorted(found, key=lambda each: (nodes[each].timeline.dead_at or now, each)):
        observed = nodes[name]
        if reason := why_withheld(name, nodes, cluster, len(spent), budget):
            withheld[name] = reason
            continue
        spent.append(now)
        uid = cluster.nodes[name].uid
        at = observed.timeline
        dead[name] = DeadNode(uid, observed.message, at.first_lost_at, at.suspect_at, at.dead_at or now)
    refused = {name: node.reason for name, node in dead.items()}
    for name, node in nodes.items():
        # A new leader knows nothing yet of a node that the one before refused: it stays refused until a sign of life.
        unseen = name in state.refused and Truth.FALSE not in node.signals.truths
        if (node.state is not NodeHealth.HEALTHY or unseen) and name not in refused:
            # The first reason stays: it has ages that grow, and each change of the state is a write.
            refused[name] = state.refused.get(name, node.message)
    return replace(state, dead=dead, spent=tuple(spent), withheld=withheld, refused=refused)


def _with_progress(recovery: DeadNode, observed: NodeVerdict | None, cluster: Cluster, now: float) -> DeadNode:
    """Adds the node's signs of life, and what the API server shows of the pods that were made again."""
    if observed is not None and Truth.FALSE in observed.signals.truths:
        recovery = replace(recovery, alive_at=recovery.alive_at or now)
    elif observed is not None and observed.state is NodeHealth.DEAD:
        recovery = replace(recovery, alive_at=None)
    healthy = observed is not None and observed.state is NodeHealth.HEALTHY and observed.reports
    healthy_since = (recovery.healthy_since or now) if healthy else None
    replacements = _replacements(recovery, cluster)
    pods = {uid: _with_replacement(pod, replacements(pod), now) for uid, pod in recovery.pods.items()}
    return replace(recovery, healthy_since=healthy_since, pods=pods)


def _replacements(recovery: DeadNode, cluster: Cluster) -> Callable[[PodRecovery], ClusterPod | None]:
    """Finds, for each recovered pod in turn, a pod of its owner that was not there before: its own once it has one."""
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


def _without_ended(recovery: DeadNode, cluster: Cluster, deleted_before: float) -> DeadNode:
    """Forgets the pods whose deletion was asked for before this moment and that do not run again, and all that do.

    A node may stay dead for good, and what is remembered of all such nodes must fit into one ConfigMap.
    """
    stays = {uid for uid in recovery.pods if uid in cluster.pods and not cluster.pods[uid].terminating}
    late = {uid for uid, pod in recovery.pods.items() if pod.running_at is None and pod.deleted_at <= deleted_before}
    pods = {uid: pod for uid, pod in recovery.pods.items() if uid not in late - stays}
    return replace(recovery, pods=_without_recovered(pods), given_up=recovery.given_up + len(late - stays))


def _without_recovered(pods: Mapping[str, PodRecovery]) -> Mapping[str, PodRecovery]:
    """Forgets the pods of owners whose pods all run again, but for the last at each step, which `DeadNode.steps`
    tells."""
    waiting = {pod.owner_uid for pod in pods.values() if pod.running_at is None}
    recovered = [uid for uid, pod in pods.items() if pod.owner_uid not in waiting]
    times = (
        [(pods[uid].deleted_at, uid) for uid in recovered],
        [(pods[uid].bound_at or 0.0, uid) for uid in recovered],
        [(pods[uid].running_at or 0.0, uid) for uid in recovered],
    )
    last = {max(of_step)[1] for of_step in times if of_step}
    return {uid: pod for uid, pod in pods.items() if pod.owner_uid in waiting or uid in last}


def _record_deletion(recovery: DeadNode, pod: ClusterPod, backup: str, cluster: Cluster, since: float) -> DeadNode:
    siblings = (each for each in cluster.pods.values() if each.owner_uid == pod.owner_uid)
    newest = max(each.created_at for each in siblings)
    recovered = PodRecovery(pod.namespace, pod.name, pod.owner_uid, backup, since, newest)
    return replace(recovery, pods={**recovery.pods, pod.uid: recovered})


def _has_taint(node: ClusterNode) -> bool:
    return any(taint.key == UNREACHABLE_TAINT for taint in node.taints)
