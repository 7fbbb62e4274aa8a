"""Gives every bounded pod a backup node, with as little reserved room as a greedy choice and local improvement find.

A backup that still holds is kept: moving it moves placeholders. Others are chosen in an order that puts pods bound to
nodes before those bound to workloads, then large ones first. Each takes the node whose reserve grows least.

What the backup node must pass is asked in the cluster as it is after each failure that the pod is to survive: without
the failed nodes, with the other fallen pods on their own backups. In the end it is asked again of the pods that count
on where others are.
"""

from collections.abc import Mapping, Sequence, Set

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.quotas import replacement_refusals
from leadsman.planning.backups.backup_plan import (
    Backup,
    BackupPlan,
    Backups,
    BackupScope,
    BackupSettings,
    FailureDomain,
    FailureDomains,
    Uncovered,
    scope_of,
)
from leadsman.planning.backups.reserve import Columns, Ints, ReserveLedger, named_reserves
from leadsman.planning.situation import Situation, counted
from leadsman.state.snapshot import Freshness

NO_BACKUPS: Mapping[str, str] = {}

_SAVES_SHARE = 1e-9
"""An improvement saves more than rounding."""

UNCONFIRMED = (Freshness.STALE, Freshness.PROVISIONAL)
"""A node is measured, but nobody knows how it is now. One without an agent is silent, and judged by other sources."""

_PLENTY = 1 << 60
"""Says what is left of a resource that a pod does not ask for."""


def plan_backups(
    situation: Situation,
    settings: BackupSettings,
    previous: Mapping[str, str] = NO_BACKUPS,
    unhealthy: Set[str] = frozenset(),
) -> BackupPlan:
    """Returns the plan for all bounded pods that have a node.

    previous: UID → backup node so far. It stays where it still holds.
    unhealthy: nodes that are dead or suspect. None becomes a backup, and a pod on one or bound to one keeps the backup
    that it has: delays to a dead node cannot be measured, and now its pods need their backups. So do pods that have to
    do with a node whose last report is old, as all are while etcd is away: what is unknown is no reason to give up
    room.

    Room that placeholders take counts as free: it is what is being planned.
    """
    planner = Planner(situation.changed(_placeholders(situation.cluster)), settings, unhealthy)
    kept = [pod for pod in planner.order if previous.get(pod.uid) in situation.cluster.nodes]
    for pod in kept:
        node = previous[pod.uid]
        if planner.is_frozen(pod, node) and node not in unhealthy:
            planner.put(pod, node)
        else:
            planner.cover(pod, [node])
    planner.cover_others()
    planner.improve()
    planner.settle()
    return planner.plan()


def without_placeholders(cluster: Cluster) -> Cluster:
    """Returns the cluster with the room free that its placeholders take."""
    return cluster.changed(pods=_placeholders(cluster))


def _placeholders(cluster: Cluster) -> Mapping[str, None]:
    return {uid: None for uid, pod in cluster.pods.items() if pod.placeholder is not None}


class Planner:
    """The plan in the making, of a cluster without placeholders.

    order: the pods that want a backup, as they are asked about one.
    """

    def __init__(self, situation: Situation, settings: BackupSettings, unhealthy: Set[str] = frozenset()) -> None:
        self._situation, self._settings, self._unhealthy = situation, settings, unhealthy
        self._cluster = cluster = situation.cluster
        states, now = situation.inputs.snapshot.nodes, situation.inputs.now
        self._unmeasured = unhealthy | {node for node, state in states.items() if state.freshness(now) in UNCONFIRMED}
        self._with_quota = {namespace for namespace, _ in cluster.quotas}
        self._domains = FailureDomains(cluster, situation.inputs, settings.rack_label)
        self._bounded = {uid: pod for uid, pod in situation.bounded.items() if pod.node}
        self.uncovered: dict[str, Uncovered] = {}
        self.backups: dict[str, Backup] = {}
        self._survives: dict[str, tuple[FailureDomain, ...]] = {}
        for pod in self._bounded.values():
            self._classify(pod)
        survived = {domain for domains in self._survives.values() for domain in domains}
        self._failures = {domain: self._domains.failure(domain) for domain in sorted(survived)}
        self._after = {domain: situation.failed(failure.nodes) for domain, failure in self._failures.items()}
        covered = [self._bounded[uid] for uid in self._survives]
        self._columns = Columns((), covered)
        self._amounts = {pod.uid: self._columns.of(pod) for pod in covered}
        self._nodes = tuple(cluster.nodes)
        self._position = {node: position for position, node in enumerate(self._nodes)}
        self._ledger = ReserveLedger(self._columns.free_on_all(cluster))
        self._all_free = np.maximum(self._ledger.free.clip(min=0).sum(axis=0), 1).astype(np.float64)
        self.order = sorted(covered, key=self._difficulty)

    def plan(self) -> BackupPlan:
        return BackupPlan(
            {**self.uncovered, **self.backups}, dict(named_reserves(self._nodes, self._columns, self._ledger))
        )

    def touched_by(self, moved: ClusterPod, backups: Backups) -> Set[str]:
        """UIDs of the pods whose backup may hold no longer now that `moved` came to its node: they count on where
        others are, their room is there, or a bound ties them to it. What `moved` and others need of one failure is
        asked when it is covered itself."""
        tied = self._situation.tied_to(moved)
        return {
            pod.uid
            for pod in self.order
            if pod.uid == moved.uid
            or (pod.namespace, pod.name) in tied
            or (pod.uid in backups and backups[pod.uid].node == moved.node)
            or counts_on_others(pod)
            or pod.constraints.anti_affinity
        }

    def cover(self, pod: ClusterPod, nodes: Sequence[str] | None = None) -> bool:
        """Gives the pod the cheapest of `nodes`, all by default, that can be its backup, or says why there is none."""
        domains, amounts = self._survives[pod.uid], self._amounts[pod.uid]
        refused = dict.fromkeys(self._unhealthy, "not healthy")
        for domain in domains:
            refused |= dict.fromkeys(self._failures[domain].nodes, f"in the {domain.scope} that fails")
        verdicts = [self._after[domain].verdict(pod) for domain in domains]
        possible = set.intersection(*(set(each.nodes) for each in verdicts)) - refused.keys()
        candidates = [self._position[node] for node in (possible if nodes is None else possible.intersection(nodes))]
        reserved = self._ledger.reserved_with(domains, amounts, candidates)
        growth = self._share(reserved - self._ledger.reserved[candidates]).tolist()
        free = self._ledger.free[candidates] - reserved
        left = np.where(amounts > 0, free, _PLENTY).min(axis=1, initial=_PLENTY).tolist()
        ranked = sorted((room < 0, more, -room, at) for room, more, at in zip(left, growth, candidates, strict=True))
        for is_short, _, _, position in ranked:
            node = self._nodes[position]
            reason = "room for it is not free" if is_short else self._reason_against(pod, node)
            if not reason:
                self.put(pod, node)
                return True
            refused[node] = reason
        for verdict in verdicts:
            refused |= verdict.kinds(but=refused)
        self.uncovered[pod.uid] = Uncovered(counted(refused))
        return False

    def is_frozen(self, pod: ClusterPod, backup: str = "") -> bool:
        """Tells whether the pod is on a node to which no delay can be measured now, is bound to one, or has its backup
        there."""
        if not backup and pod.uid in self.backups:
            backup = self.backups[pod.uid].node
        concerned = {pod.node, backup, *self._situation.reference_nodes(pod)}
        return not self._unmeasured.isdisjoint(concerned)

    def put(self, pod: ClusterPod, node: str) -> None:
        """Makes the node the pod's backup."""
        domains = self._survives[pod.uid]
        self.backups[pod.uid] = Backup(node, domains)
        self.uncovered.pop(pod.uid, None)
        self._count(pod, self.backups[pod.uid])
        for domain in domains:
            self._after[domain] = self._after[domain].with_pod(pod, node)

    def take_over(self, pod: ClusterPod, before: Backup | Uncovered) -> None:
        """Leaves the pod what it had in an earlier plan, and asks nothing."""
        if isinstance(before, Backup):
            self.put(pod, before.node)
        else:
            self.uncovered[pod.uid] = before

    def cover_others(self) -> None:
        """Covers the pods that have no backup. One that is bound to others may only be possible after those."""
        progress = True
        while progress:
            waiting = [pod for pod in self.order if pod.uid not in self.backups]
            progress = sum(self.cover(pod) for pod in waiting) > 0

    def improve(self) -> None:
        """Moves backups to where they reserve less in all, a few at a time."""
        moved = 0
        for pod in self.order:
            if moved >= self._settings.max_improvements:
                return
            if pod.uid not in self.backups or self.is_frozen(pod):
                continue
            before, backup = self._reserved_share(), self.backups[pod.uid]
            self._count(pod, backup, -1)
            least = self._reserved_share()
            self._count(pod, backup)
            if before - least <= _SAVES_SHARE:
                continue
            self._take(pod)
            self.cover(pod)
            if pod.uid not in self.backups or self._reserved_share() >= before - _SAVES_SHARE:
                if pod.uid in self.backups:
                    self._take(pod)
                self.put(pod, backup.node)
            else:
                moved += 1

    def settle(self) -> None:
        """Takes back each backup that would not take its pod beside all others that fall, and tries another one once.

        A pod that is covered later may change what an earlier one asks for: spread counts it, affinity wants it near.
        """
        retried, stuck = set[str](), self._stuck()
        while stuck:
            pods = [self._bounded[uid] for uid in stuck]
            for pod in pods:
                self._take(pod)
                self.uncovered[pod.uid] = Uncovered(f"beside other pods that fall with it: {stuck[pod.uid]}")
            for pod in pods:
                if pod.uid not in retried:
                    retried.add(pod.uid)
                    self.cover(pod)
            stuck = self._stuck() | self._out_of_bounds()

    def _stuck(self) -> dict[str, str]:
        """Maps the UIDs of covered pods that could not land after some failure to why."""
        found: dict[str, str] = {}
        for domain, after in self._after.items():
            landing = [
                (pod, self.backups[pod.uid].node)
                for pod in self._failures[domain].pods
                if counts_on_others(pod) and self._is_covered(pod, domain) and not self.is_frozen(pod)
            ]
            found |= stuck_pods(after, landing)
        return found

    def _out_of_bounds(self) -> dict[str, str]:
        """Maps UIDs to why they lost their backup, of covered pods that counted on the backup of a pod that has another
        one now, or none."""
        found: dict[str, str] = {}
        for pod in self.order:
            backup = self.backups.get(pod.uid)
            if backup is None or self.is_frozen(pod) or not self._situation.workloads_bounding(pod):
                continue
            for domain in backup.domains:
                refused = self._after[domain].bound_refusals(pod)
                if backup.node in refused:
                    found[pod.uid] = refused[backup.node].reason
        return found

    def _is_covered(self, pod: ClusterPod, domain: FailureDomain) -> bool:
        return pod.uid in self.backups and domain in self.backups[pod.uid].domains

    def _classify(self, pod: ClusterPod) -> None:
        """Sets what failures the pod is to survive, or why it cannot be covered."""
        if pod.node not in self._cluster.nodes or pod.terminating:
            return
        scope = scope_of(pod, self._settings)
        if scope is BackupScope.NONE:
            return
        survived = scope if isinstance(scope, Uncovered) else self._domains.survived_by(scope, pod.node)
        if isinstance(survived, Uncovered):
            self.uncovered[pod.uid] = survived
        else:
            self._survives[pod.uid] = survived

    def _share(self, amounts: Ints) -> NDArray[np.float64]:
        """Returns the amounts as a share of all that is free, summed over resources."""
        shares: NDArray[np.float64] = (amounts / self._all_free).sum(axis=-1)
        return shares

    def _reserved_share(self) -> float:
        return float(self._share(self._ledger.reserved.sum(axis=0)))

    def _difficulty(self, pod: ClusterPod) -> tuple[int, float, str]:
        """Ranks pods: those that are bound to no workload come first, then large ones."""
        return len(self._situation.workloads_bounding(pod)), -float(self._share(self._amounts[pod.uid])), pod.uid

    def _reason_against(self, pod: ClusterPod, node: str) -> str:
        """Why the pod could not go to the node after one of the failures, although nothing refuses it there; "": it
        could after each."""
        bounds_others = bool(self._situation.dependants(pod))
        for domain in self._survives[pod.uid]:
            if pod.namespace in self._with_quota and (
                reasons := replacement_refusals(self._cluster, self._remade_with(pod, domain))
            ):
                return reasons[0]
            if not bounds_others:
                continue
            if lost := self._situation.bound_lost_by(pod, self._after[domain].with_pod(pod, node)):
                return f"pod {lost.namespace}/{lost.name} would lose its bound to it"
        return ""

    def _remade_with(self, pod: ClusterPod, domain: FailureDomain) -> list[ClusterPod]:
        """Returns the pods of its namespace that are made again when the domain fails, this one among them."""
        fallen = (each for each in self._failures[domain].pods if each.namespace == pod.namespace)
        covered = (each for each in fallen if self._is_covered(each, domain))
        return [*(each for each in covered if each.uid != pod.uid), pod]

    def _count(self, pod: ClusterPod, backup: Backup, sign: int = 1) -> None:
        """Counts what falls on the backup; with sign -1, no longer."""
        self._ledger.fall(backup.domains, self._position[backup.node], sign * self._amounts[pod.uid])

    def _take(self, pod: ClusterPod) -> Backup:
        backup = self.backups.pop(pod.uid)
        self._count(pod, backup, -1)
        for domain in backup.domains:
            self._after[domain] = self._after[domain].without_pod(pod.uid)
        return backup


def counts_on_others(pod: ClusterPod) -> bool:
    """Tells whether pods that land later, or elsewhere, may change where this one may go.

    Anti-affinity and host ports are the same seen from both pods, so the one that is placed second has checked them.
    """
    return bool(pod.constraints.affinity or pod.constraints.spread)


def stuck_pods(after: Situation, landing: Sequence[tuple[ClusterPod, str]]) -> dict[str, str]:
    """UID → why kube-scheduler would refuse it its backup, of the pods that may never get there.

    after: the situation after the failure, with every covered pod on its backup.
    landing: the pods with a backup that count on others.

    Nobody knows in which order they come, so each must find its place as the last one. And none may wait for one that
    waits for it: kube-scheduler tries each again when another one has landed.
    """
    as_last = {pod.uid: after.verdict(pod).why_not(node) for pod, node in landing}
    if late := {uid: reason for uid, reason in as_last.items() if reason}:
        return late
    after = after.changed(dict.fromkeys(pod.uid for pod, _ in landing))
    waiting, reasons = list(landing), dict[str, str]()
    while waiting:
        refused = list[tuple[ClusterPod, str]]()
        for pod, node in waiting:
            if reason := after.verdict(pod).why_not(node):
                reasons[pod.uid] = reason
                refused.append((pod, node))
            else:
                after = after.with_pod(pod, node)
        if len(refused) == len(waiting):
            return {pod.uid: reasons[pod.uid] for pod, _ in refused}
        waiting = refused
    return {}


def plan_after_move(
    before: BackupPlan, moved: ClusterPod, situation: Situation, settings: BackupSettings
) -> BackupPlan:
    """Returns the plan once one pod is on another node, without asking again about pods that the move cannot touch.

    Every backup of it holds. Those of `before` stay where they do, and none is moved to save room.
    moved: the pod as it stands in the situation, which is without placeholders. Pods that had no backup are not tried
    again unless everything has to be.
    """
    # What it must be away from, and who shares its volume, may decide where any other pod may go.
    touches_all = moved.constraints.anti_affinity or moved.claims
    plan = None if touches_all else _plan_of_touched(before, moved, situation, settings)
    if plan is not None:
        return plan
    kept = {uid: backup.node for uid, backup in before.backups.items()}
    return plan_backups(situation, replace(settings, max_improvements=0), kept)


def _plan_of_touched(
    before: BackupPlan, moved: ClusterPod, situation: Situation, settings: BackupSettings
) -> BackupPlan | None:
    """Plans for the pods that changed alone. None: a pod that did not move needs another backup, so that others may as
    well."""
    planner, backups = Planner(situation, settings), before.backups
    touched = planner.touched_by(moved, backups)
    for pod in planner.order:
        if pod.uid not in touched:
            planner.take_over(pod, before.pods[pod.uid])
    for pod in planner.order:
        if pod.uid in touched and pod.uid in backups and planner.cover(pod, [backups[pod.uid].node]):
            continue
        if pod.uid == moved.uid or (pod.uid in touched and pod.uid not in backups):
            planner.cover(pod)
    planner.settle()
    after = planner.backups
    stay = all(uid in after and after[uid].node == each.node for uid, each in backups.items() if uid != moved.uid)
    return planner.plan() if stay and (moved.uid in after or moved.uid not in backups) else None
