"""An API server, a ReplicaSet controller and a kube-scheduler with our extender, as far as a failover needs them.

Room that backups reserve counts as held: placeholders are not simulated. Delays are those of racks and zones.
"""

from collections.abc import Callable, Mapping, Set
from random import Random

from msgspec.structs import replace

from leadsman.cluster.constraints import Taint
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ZONE_LABEL, ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.views import SourceRow
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.planning.backups.model import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.failover.model import Location, NodeHealth, NodeVerdict, Truth
from leadsman.planning.recovery.model import (
    UNREACHABLE_TAINT,
    DeletePod,
    NodeCondition,
    ObservedNode,
    RecoveryAction,
    RecoveryBudget,
    RecoveryState,
    TaintNode,
    UntaintNode,
)
from leadsman.planning.recovery.plan import BackupsByPod, plan_recovery
from leadsman.state.snapshot import Snapshot

NODE_SIZE, POD_SIZE = Resources(8_000, 8 << 30, 110), Resources(100, 1 << 30, 1)
RACK_MS, ZONE_MS, FAR_MS, BOUND_MS = 0.1, 0.5, 5.0, 1.0
REPLACED_SECONDS, BOUND_SECONDS = 0.1, 0.2
"""After the deletion: until the owner's new pod is there, and until kube-scheduler has bound it."""


class Delays:
    """A DelayView: each row is made when it is asked for."""

    source, read_at, fresh_until = "simulated", None, float("inf")

    def __init__(self, locations: Mapping[str, Location]) -> None:
        self._locations, self.nodes = locations, frozenset(locations)
        self._rows: dict[str, SourceRow] = {}

    def row(self, reference: str) -> SourceRow:
        if reference not in self._rows:
            self._rows[reference] = SourceRow(forward={node: self.rtt_ms(reference, node) for node in self._locations})
        return self._rows[reference]

    def rtt_ms(self, one: str, other: str) -> float:
        here, there = self._locations[one], self._locations[other]
        return FAR_MS if here.zone != there.zone else ZONE_MS if here.rack != there.rack else RACK_MS


class ControlPlane:
    """What the API server shows, and what the leading controller does.

    references: nodes that pods are bound to, one a zone.
    extender_answers: else kube-scheduler places without it, as `ignorable: true` lets it.
    deleted_at, bound: of pods of dead nodes: when the first was deleted; node and time of each replacement.
    """

    def __init__(self, locations: Mapping[str, Location], pods: int, rng: Random, budget: RecoveryBudget) -> None:
        self.delays, self._rng, self._budget = Delays(locations), rng, budget
        labels = {name: {ZONE_LABEL: location.zone} for name, location in locations.items()}
        nodes = [ClusterNode(name, name, labels=labels[name], allocatable=NODE_SIZE, ready=True) for name in locations]
        self.cluster: Cluster = cluster_of(nodes, ())
        self.references = {locations[name].zone: name for name in reversed([*locations])}
        self.state, self.extender_answers = RecoveryState(), True
        self.deleted_at: float | None = None
        self.bound: list[tuple[str, float]] = []
        self._plan = BackupPlan()
        self._planned_for: tuple[tuple[tuple[str, str], ...], frozenset[str]] = (), frozenset()
        self._due: list[tuple[float, Callable[[], None]]] = []
        others = [name for name in locations if name not in self.references.values()]
        for number in range(pods):
            node = others[number * max(1, len(others) // pods) % len(others)]
            reference = self.references[locations[node].zone]
            self.cluster = self.cluster.with_pod(_pod(f"web-{number}", f"rs-{number}", reference), node)

    def loaded_nodes(self) -> list[str]:
        """The nodes with pods, without references."""
        return sorted({pod.node for pod in self.cluster.pods.values()} - set(self.references.values()))

    def step(self, verdicts: Mapping[str, NodeVerdict], now: float, *, leads: bool) -> None:
        """A round of the leading controller, and what the others did until then."""
        for at, do in sorted([each for each in self._due if each[0] <= now], key=lambda each: each[0]):
            self._due.remove((at, do))
            do()
        if not leads:
            return
        unhealthy = frozenset(name for name, verdict in verdicts.items() if verdict.state is not NodeHealth.HEALTHY)
        self._keep_backups(unhealthy)
        backups = BackupsByPod({uid: each.node for uid, each in self._plan.backups.items()}, dict(self._plan.uncovered))
        observed = {name: _observed(verdict) for name, verdict in verdicts.items()}
        plan = plan_recovery(observed, self.cluster, backups, self.state, self._budget, now)
        self.state = plan.state
        for action in plan.actions:
            self._execute(action, now)

    def _keep_backups(self, unhealthy: Set[str]) -> None:
        """Plans again when pods or sick nodes are others."""
        changed_by = (tuple(sorted((uid, pod.node) for uid, pod in self.cluster.pods.items())), frozenset(unhealthy))
        if changed_by == self._planned_for:
            return
        inputs = DecisionInputs(Snapshot(), Policy(), now=0.0, delay_views=(self.delays,))
        previous = {uid: each.node for uid, each in self._plan.backups.items()}
        self._plan = plan_backups(self.cluster, inputs, BackupSettings(), previous, unhealthy)
        self._planned_for = changed_by

    def _execute(self, action: RecoveryAction, now: float) -> None:
        match action:
            case TaintNode(node=name):
                taint = Taint(UNREACHABLE_TAINT)
                node = replace(self.cluster.nodes[name], taints=(*self.cluster.nodes[name].taints, taint))
                self.cluster = self.cluster.changed(nodes={name: node})
            case UntaintNode(node=name):
                self.cluster = self.cluster.changed(nodes={name: replace(self.cluster.nodes[name], taints=())})
            case DeletePod():
                self.deleted_at = now if self.deleted_at is None else self.deleted_at
                old = self.cluster.pods[action.uid]
                self.cluster = self.cluster.changed(pods={old.uid: replace(old, terminating=True)})
                at = now + self._rng.uniform(REPLACED_SECONDS, REPLACED_SECONDS + BOUND_SECONDS)
                self._due.append((at, lambda: self._bind(old, at)))

    def _bind(self, old: ClusterPod, at: float) -> None:
        """The owner's new pod gets a node, or is tried again a second later."""
        pod = replace(old, uid=f"{old.uid}+", name=f"{old.name}+", node="", created_at=at)
        nodes = [node for node in Feasibility(self.cluster, pod).nodes if self._extender_keeps(node, pod, at)]
        if not nodes:
            self._due.append((at + 1.0, lambda: self._bind(old, at + 1.0)))
            return
        node = max(nodes, key=lambda each: (self.cluster.free(each).memory_bytes, each))
        self.cluster = self.cluster.with_pod(replace(pod, ready=True), node)
        self.bound.append((node, at))

    def _extender_keeps(self, node: str, pod: ClusterPod, at: float) -> bool:
        """Bounds, refused nodes and held room, as the extender filters by them."""
        if not self.extender_answers:
            return True
        [(label, bound_ms)] = pod.labels.items()
        owners = {hold.owner_uid for hold in self.state.holds if hold.node == node and hold.until > at}
        near = self.delays.rtt_ms(label.removeprefix("delay_"), node) <= float(bound_ms)
        return near and node not in self.state.refused and (not owners or pod.owner_uid in owners)

    def returned(self, node: str) -> None:
        """Its kubelet ends the pods that were deleted meanwhile."""
        gone = {pod.uid: None for pod in self.cluster.pods_on(node) if pod.terminating}
        self.cluster = self.cluster.changed(pods=dict(gone))


def _pod(name: str, owner: str, reference: str) -> ClusterPod:
    return ClusterPod(
        name,
        "shop",
        name,
        workload=f"deployment/{owner}",
        owner_kind="ReplicaSet",
        owner_uid=owner,
        requests=POD_SIZE,
        labels={f"delay_{reference}": f"{BOUND_MS:g}"},
        phase="Running",
        ready=True,
    )


def _observed(verdict: NodeVerdict) -> ObservedNode:
    times = verdict.timeline.first_lost_at, verdict.timeline.suspect_at, verdict.timeline.dead_at
    condition = NodeCondition.SUSPECT
    if verdict.state in (NodeHealth.HEALTHY, NodeHealth.DEAD):
        condition = NodeCondition(verdict.state.value)
    return ObservedNode(condition, verdict.message, verdict.signals.heartbeat.truth is Truth.FALSE, *times)
