"""Defines what a backup plan says, which failures it is for, and what one of them would cost under it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod, labelled_location
from leadsman.cluster.resources import ZERO, Resources
from leadsman.decision.delay.bounds import NoTarget, valid_bounds
from leadsman.decision.delay.evaluation import evaluate_bounds, pair_rows
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import BACKUP_ANNOTATION
from leadsman.planning.situation import Situation
from leadsman.published.self_healing import BackupMemory, RememberedBackup


class BackupScope(StrEnum):
    """The largest failure that a pod is to survive."""

    NONE = "none"
    NODE = "node"
    RACK = "rack"
    ZONE = "zone"


SCOPES = tuple(BackupScope)
"""All scopes, at the place of the number of a node's domains that they are about."""


class FailureDomain(NamedTuple):
    """Nodes that fail at once: the node, rack or zone of that name. A rack's name is `<zone>/<rack>`."""

    scope: BackupScope
    name: str

    def __str__(self) -> str:
        return f"{self.scope} {self.name}"


class BackupSettings(Struct, frozen=True):
    """Settings of backups that an operator chooses.

    default_scope: of pods that do not say one themselves.
    rack_label: the label of nodes that names their rack; a node without it has the rack that its agent reports.
    max_improvements: most backups that one plan moves to save room; more make placeholders churn.
    """

    default_scope: BackupScope = BackupScope.NODE
    rack_label: str = "topology.kubernetes.io/rack"
    max_improvements: int = 8


class Backup(Struct, frozen=True):
    """A pod is covered: `node` takes it when any of `domains` fails."""

    node: str
    domains: tuple[FailureDomain, ...]


class Uncovered(Struct, frozen=True):
    """A pod has no backup. reason: why, in words for an Event."""

    reason: str


Backups = Mapping[str, Backup]
"""Maps the UID of each covered pod to its backup."""


class BackupPlan(Struct, frozen=True):
    """Holds the backups of all bounded pods.

    pods: UID → backup, or why there is none. A pod that asked for none is not in it.
    reserves: node → what it keeps free of ordinary pods, without nodes that reserve nothing.
    """

    pods: Mapping[str, Backup | Uncovered] = {}
    reserves: Mapping[str, Resources] = {}

    @property
    def backups(self) -> Backups:
        """Returns the backups of the covered pods."""
        return {uid: each for uid, each in self.pods.items() if isinstance(each, Backup)}

    @property
    def uncovered(self) -> Iterator[tuple[str, str]]:
        """Yields UID and reason of each pod that has no backup."""
        return ((uid, each.reason) for uid, each in self.pods.items() if isinstance(each, Uncovered))


class Failure(Struct, frozen=True):
    """A domain fails.

    nodes: those that fail with it.
    pods: those that stand there and fall.
    """

    domain: FailureDomain
    nodes: frozenset[str]
    pods: tuple[ClusterPod, ...]


class FailureDomains:
    """Knows the failure domains of a cluster's nodes.

    of_node: node → its own domain, its rack's and its zone's; None where one is unknown.
    """

    def __init__(self, cluster: Cluster, inputs: DecisionInputs, rack_label: str) -> None:
        self._cluster = cluster
        self.of_node: dict[str, tuple[FailureDomain | None, ...]] = {}
        self._members: dict[FailureDomain, list[str]] = defaultdict(list)
        for node in cluster.nodes.values():
            state = inputs.snapshot.nodes.get(node.name)
            location = labelled_location(node.labels, rack_label)
            if state is not None and state.identity is not None:
                location = location.completed(state.identity.zone, state.identity.rack)
            rack = f"{location.zone}/{location.rack}" if location.rack else ""
            names = node.name, rack, location.zone
            own = tuple(FailureDomain(*each) if each[1] else None for each in zip(SCOPES[1:], names, strict=True))
            self.of_node[node.name] = own
            for domain in filter(None, own):
                self._members[domain].append(node.name)

    @property
    def domains(self) -> Iterable[FailureDomain]:
        """Returns all that may fail."""
        return self._members

    def failure(self, domain: FailureDomain) -> Failure:
        """Returns what happens when the domain fails."""
        nodes = self._members[domain]
        return Failure(domain, frozenset(nodes), tuple(pod for node in nodes for pod in self._cluster.pods_on(node)))

    def survived_by(self, scope: BackupScope, node: str) -> tuple[FailureDomain, ...] | Uncovered:
        """Returns the failures that a pod on `node` is to survive: those of its scope and of the narrower ones.

        A rack or zone that is asked for must be known. A rack is optional for a pod that asks for another zone.
        """
        own = self.of_node[node][: SCOPES.index(scope)]
        if own[-1] is None:
            return Uncovered(f"the {scope} of node {node} is unknown, so no node is known to be in another {scope}")
        return tuple(filter(None, own))


def scope_of(pod: ClusterPod, settings: BackupSettings) -> BackupScope | Uncovered:
    """Returns the largest failure that a bounded pod is to survive, or why it can have no backup on any node."""
    value = pod.annotations.get(BACKUP_ANNOTATION, settings.default_scope)
    if value not in SCOPES:
        return Uncovered(f'annotation {BACKUP_ANNOTATION}: "{value[:63]}" is not valid; use {", ".join(SCOPES)}')
    reason = never_replaced(pod) if value != BackupScope.NONE else ""
    return Uncovered(reason) if reason else BackupScope(value)


def scopes_of(pod: ClusterPod, settings: BackupSettings) -> int:
    """Says how many of its node's domains a bounded pod is to survive; 0: it wants no backup, or can have none."""
    scope = scope_of(pod, settings)
    return SCOPES.index(scope) if isinstance(scope, BackupScope) else 0


def never_replaced(pod: ClusterPod) -> str:
    """Says why nobody makes the pod again on another node; "": its owner does."""
    if pod.mirror:
        return "it is a static pod, which only its own kubelet runs"
    if pod.owner_kind == "DaemonSet":
        return "it belongs to a DaemonSet, which has a pod on the other nodes already"
    if not pod.owner_uid:
        return "it has no controller that would make it again"
    return ""


def lost_pods(situation: Situation, failure: Failure, plan: BackupPlan) -> Mapping[str, str]:
    """UID → why it is lost, of the pods that the plan covers against this failure. Empty when the plan is right.

    It looks at the plan's words alone, not at a planner's bookkeeping. Every covered pod lands on its backup at once,
    in rooms no larger than the reserves. situation: without placeholders.
    """
    backups = {uid: backup for uid, backup in plan.backups.items() if failure.domain in backup.domains}
    covered = [pod for pod in failure.pods if pod.uid in backups]
    arriving = defaultdict[str, Resources](lambda: ZERO)
    for pod in covered:
        arriving[backups[pod.uid].node] += pod.requests
    landed = {pod.uid: replace(pod, node=backups[pod.uid].node) for pod in covered}
    after = situation.failed(failure.nodes).changed(landed)
    lost: dict[str, str] = {}
    for pod in landed.values():
        node = pod.node
        if node in failure.nodes:
            lost[pod.uid] = f"its backup {node} fails too"
        elif not arriving[node].fits(plan.reserves[node]):
            lost[pod.uid] = f"{node} reserves {plan.reserves[node]}, and {arriving[node]} fall there"
        elif reason := after.verdict(pod).why_not(node):
            lost[pod.uid] = f"{node}: {reason}"
    return lost


def broken_promises(situation: Situation, plan: BackupPlan, rack_label: str) -> Mapping[str, str]:
    """Node or UID → what is wrong: a node lacks the room that it reserves, or a covered pod is lost in a failure that
    it is to survive. Empty when the plan is right."""
    cluster, found = situation.cluster, dict[str, str]()
    for node, reserve in plan.reserves.items():
        if not reserve.fits(cluster.free(node)):
            found[node] = f"it reserves {reserve} and has only {cluster.free(node)}"
    failures = FailureDomains(cluster, situation.inputs, rack_label)
    for domain in sorted({domain for backup in plan.backups.values() for domain in backup.domains}):
        found |= lost_pods(situation, failures.failure(domain), plan)
    return found


def remember(
    plan: BackupPlan, situation: Situation, before: BackupMemory, unhealthy: Set[str], now_unix: float
) -> BackupMemory:
    """Returns what of the plan a new leader will need. Delays to unhealthy nodes stay as they were before: they cannot
    be measured now."""
    pods: dict[str, RememberedBackup] = {}
    for uid, backup in plan.backups.items():
        pod, old = situation.cluster.pods[uid], before.pods.get(uid)
        rtt_ms = _round_trips_ms(situation, pod, backup.node)
        if old is not None and old.node == backup.node:
            rtt_ms |= {reference: ms for reference, ms in old.rtt_ms.items() if reference in unhealthy}
        pods[uid] = RememberedBackup(backup.node, pod.owner_uid, rtt_ms)
    return BackupMemory(now_unix, pods)


def _round_trips_ms(situation: Situation, pod: ClusterPod, node: str) -> dict[str, float]:
    """Maps each reference node of the pod's bounds to its round trip to `node` as it is known now, measured or
    estimated."""
    found: dict[str, float] = {}
    info, inputs = PodInfo.of(pod), situation.inputs
    for each in evaluate_bounds(valid_bounds(info), info, situation.candidates, inputs):
        if not isinstance(each, NoTarget):
            position = each.evaluation.index.position(node)
            found |= {row.reference: float(row.rtt_ms[position]) for row in pair_rows(each, inputs)}
    return {reference: rtt_ms for reference, rtt_ms in found.items() if not math.isnan(rtt_ms)}
