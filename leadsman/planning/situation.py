"""May this pod be on this node, now or supposing that some pods are elsewhere and some nodes are gone?

A Situation is a cluster with everything else that decides on a pod: kube-scheduler's plugins look at the cluster, the
extender's filters at the decision inputs, and both are told of the same supposed changes. So there is one answer for
all who plan, and it is the one that kube-scheduler and the extender would give.
"""

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec.structs import replace

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NO_DEVICES, NodeDevices, node_devices
from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, Overlay
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.decide import FilterResult, ScoreResult, counted_scores, filter_nodes, score_nodes
from leadsman.decision.delay.bounds import NoTarget, TargetName, valid_bounds
from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.decision.delay.evaluation import evaluate_bounds
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import (
    LOST,
    DecisionInputs,
    DeviceInputs,
    PlacedPod,
    PlacedPods,
    SelfHealing,
    WorkloadIndex,
)
from leadsman.decision.model import CandidateNodes, DelayEvidence, PluginScore, PodInfo, Refusal
from leadsman.kube.names import PLACEHOLDER_NAMESPACE

WorkloadKey = tuple[str, str]
"""Namespace and name."""

Judge = Callable[[PodInfo, Sequence[str], DecisionInputs], FilterResult]
"""Filters nodes as an extender does: `filter_nodes`, or with the plugins of other packages."""

Scorer = Callable[[PodInfo, Sequence[str], DecisionInputs], ScoreResult]
"""Scores nodes as an extender does, likewise."""


def workload_key(pod: ClusterPod) -> WorkloadKey:
    """Returns what a bound to the pod's workload names."""
    return pod.namespace, pod.workload.partition("/")[2]


class Verdict:
    """Says which nodes may have one pod, and why the others may not.

    positions: of those nodes in the columns of the cluster's nodes.
    """

    def __init__(self, feasibility: Feasibility, filtered: FilterResult) -> None:
        self._feasibility, self._refused = feasibility, filtered.refused
        self.positions = feasibility.positions(filtered.kept if filtered.refused else None)

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Returns the names of the nodes that may have the pod."""
        names = self._feasibility.names  # many are asked for at once: lists of positions are read faster than arrays
        return tuple([names[at] for at in self.positions.tolist()])

    def reasons(self, node: str) -> list[str]:
        """Why the node may not have the pod, kube-scheduler's reasons before the extender's; none if it may. KeyError
        for a node that is not there."""
        by_extender = [self._refused[node].reason] if node in self._refused else []
        return [*self._feasibility.refusals(node), *by_extender]

    def kinds(self, but: Container[str] = ()) -> dict[str, str]:
        """Maps each node to the kind of what is against it, in the same words for all nodes with the same fault. The
        extender's reasons come first: they stay when room comes and goes. but: nodes that are left out."""
        by_extender = {node: each.reason for node, each in self._refused.items() if node not in but}
        by_scheduler = {node: kind for node, kind in self._feasibility.kinds().items() if node not in but}
        return by_scheduler | by_extender

    def why_not(self, node: str) -> str:
        """Returns the first of `reasons`; "": there is none."""
        return next(iter(self.reasons(node)), "")


class Situation:
    """A cluster as it is, or as it would be. Immutable: what changes makes another one.

    judge: how the extender filters nodes. scorer: how it scores them.
    candidates: the nodes that it is asked about; those that are supposed to be gone are among them, as pods may be
        bound to them.
    """

    def __init__(
        self, cluster: Cluster, inputs: DecisionInputs, judge: Judge = filter_nodes, scorer: Scorer = score_nodes
    ) -> None:
        self.cluster, self.judge, self._scorer = cluster, judge, scorer
        self.candidates = CandidateNodes.of(cluster.nodes)
        self._inputs, self._places = inputs, list[tuple[ClusterPod, str]]()
        self._bounds = _Bounds(cluster, inputs)
        self._absent = ""

    @property
    def inputs(self) -> DecisionInputs:
        """Returns the inputs of a decision in this cluster. Where pods are is put into them when somebody asks: many a
        situation is only the way to the next one."""
        if self._places:
            workloads = self._inputs.workloads
            by_name = _SupposedWorkloads.of(workloads).with_places(self._places)
            self._inputs = replace(self._inputs, workloads=replace(workloads, by_name=by_name))
            self._places = []
        return self._inputs

    @property
    def bounded(self) -> Mapping[str, ClusterPod]:
        """Maps UIDs to their pods, of those with a delay bound; without those that were supposed to be new."""
        found = ((uid, self.cluster.pods.get(uid)) for uid in self._bounds.pods)
        return {uid: pod for uid, pod in found if pod is not None}

    def on(self, cluster: Cluster, inputs: DecisionInputs | None = None) -> "Situation":
        """Returns the same judges, asked about this cluster. inputs: None: as here."""
        return Situation(cluster, self.inputs if inputs is None else inputs, self.judge, self._scorer)

    def changed(
        self, pods: Mapping[str, ClusterPod | None], nodes: Mapping[str, ClusterNode | None] | None = None
    ) -> "Situation":
        """Returns the same with these pods by UID, None for one that is gone, and these nodes by name."""
        after = self._copy()
        after.cluster = self.cluster.changed(nodes, pods)
        moved = list(_moved(self.cluster, pods))
        after._places = [
            *self._places,
            *((pod, now if pods[pod.uid] else self._absent) for pod, _, now in moved if pod.workload),
        ]
        if self._inputs.devices.followed:
            after._inputs = _with_moved_demands(self._inputs, moved)
        return after

    def with_pod(self, pod: ClusterPod, node: str) -> "Situation":
        """Returns the same with the pod on this node, wherever it was."""
        return self.changed({pod.uid: replace(pod, node=node)})

    def without_pod(self, uid: str) -> "Situation":
        return self.changed({uid: None})

    def failed(self, nodes: frozenset[str]) -> "Situation":
        """Returns the situation after these nodes failed and before any pod of theirs is made again: its place is not
        known.

        The delays are those of now, when every node still reports: after the failure nobody can measure them.
        """
        now = self._copy()
        now._absent = LOST
        # What holds for seconds is over then.
        devices = replace(self.inputs.devices, reservations=(), reservations_problem="")
        now._inputs, now._places = replace(self.inputs, self_healing=SelfHealing(), devices=devices), []
        fallen = (pod.uid for node in nodes for pod in self.cluster.pods_on(node))
        return now.changed(dict.fromkeys(fallen), dict.fromkeys(nodes))

    def _copy(self) -> "Situation":
        copied = object.__new__(Situation)
        copied.__dict__.update(self.__dict__)
        return copied

    def holding(self, room: Mapping[str, Resources]) -> "Situation":
        """Returns the same situation with so much room held on nodes, as by a pod on each."""
        return self.changed(
            {
                f"room held on {node}": ClusterPod(
                    f"room held on {node}", PLACEHOLDER_NAMESPACE, node, node, requests=amount
                )
                for node, amount in room.items()
            }
        )

    def verdict(self, pod: ClusterPod) -> Verdict:
        """Says which nodes may have the pod. One that is bound is judged as if it were taken off its node first."""
        info, feasibility = PodInfo.of(pod), Feasibility(self.cluster, pod)
        inputs = self.inputs if pod.devices is None else _without_demand_of(pod, self.cluster, self.inputs)
        filtered = self.judge(info, self.candidates, inputs)
        verdict = Verdict(feasibility, filtered)
        if filtered.refused and not len(verdict.positions) and feasibility.allowed.any():
            # kube-scheduler asks about these only, and a filter may let a pod go where nothing else is left to it.
            verdict = Verdict(feasibility, self.judge(info, feasibility.nodes, inputs))
        return verdict

    def scores(self, pod: ClusterPod, nodes: Sequence[str]) -> Sequence[PluginScore]:
        """Returns what each score that counts says of the nodes."""
        return counted_scores(self._scorer(PodInfo.of(pod), nodes, self.inputs).plugin_scores)

    def totals(self, pod: ClusterPod, nodes: Sequence[str]) -> Mapping[str, int]:
        """Returns what the extender answers for each of the nodes, 0..10."""
        return self._scorer(PodInfo.of(pod), nodes, self.inputs).scores

    def bound_refusals(self, pod: ClusterPod) -> Mapping[str, Refusal]:
        """Node → which of the pod's delay bounds it would not keep."""
        return DelayFilter().refusals(PodInfo.of(pod), self.candidates, self.inputs)

    def keeps_bounds(self, pod: ClusterPod, node: str) -> bool:
        """Tells whether the pod keeps its delay bounds on the node."""
        return node not in self.bound_refusals(pod)

    def why_not_stay(self, pod: ClusterPod) -> str:
        """Why the pod would not be bound again where it is; "": it would. What an extender refuses beside its bounds is
        for new pods: one that runs may stay."""
        if reasons := Feasibility(self.cluster, pod).refusals(pod.node):
            return reasons[0]
        refused = self.bound_refusals(pod)
        return refused[pod.node].reason if pod.node in refused else ""

    def lost_bound(self, places: Mapping[str, str]) -> str:
        """Tells which pod would not keep its bounds with these pods, by UID, on these nodes; "": none. Those must keep
        all of theirs, the others the ones that they keep now."""
        pods = {uid: self.cluster.pods[uid] for uid in places}
        after = self.changed({uid: replace(pods[uid], node=node) for uid, node in places.items()})
        for uid, node in places.items():
            if not after.keeps_bounds(pods[uid], node):
                return f"pod {pods[uid].namespace}/{pods[uid].name} would not keep its bound there"
        for pod in pods.values():
            if lost := self.bound_lost_by(pod, after):
                return f"pod {lost.namespace}/{lost.name} would lose its bound to it"
        return ""

    def bound_lost_by(self, moved: ClusterPod, after: "Situation") -> ClusterPod | None:
        """Returns a pod that does not keep its bounds after this pod has moved, and has moved too or keeps them now."""
        for each in self.dependants(moved):
            then = after.cluster.pods.get(each.uid)
            if then is None or not then.node or each.terminating or after.keeps_bounds(then, then.node):
                continue
            if then.node != each.node or self.keeps_bounds(each, each.node):
                return each
        return None

    def related(self, pod: ClusterPod) -> set[WorkloadKey]:
        """Returns the workloads whose places decide on the pod's bounds, and those on whose bounds its place
        decides."""
        return {workload_key(pod), *references(pod), *map(workload_key, self.dependants(pod))}

    def dependants(self, pod: ClusterPod) -> Sequence[ClusterPod]:
        """Returns the other pods with a bound to the pod's workload."""
        uids = dict.fromkeys(uid for key in self._bounds.workloads_of(pod) for uid in self._bounds.to[key])
        found = (self.cluster.pods.get(uid) for uid in uids if uid != pod.uid)
        return [each for each in found if each is not None]

    def tied_to(self, pod: ClusterPod) -> set[tuple[str, str]]:
        """Returns namespace and name of the pods whose bounds may turn on where this one is, and the other way
        round."""
        workloads = {*self._bounds.workloads_of(pod), *self.workloads_bounding(pod)}
        placed = {(key[0], each.pod) for key in workloads for each in self._placed(key)}
        return placed | {(each.namespace, each.name) for each in self.dependants(pod)}

    def workloads_bounding(self, pod: ClusterPod) -> list[WorkloadKey]:
        """Returns each workload that a bound of the pod is to."""
        return [key for key in references(pod) if key in self.inputs.workloads.by_name]

    def reference_nodes(self, pod: ClusterPod) -> set[str]:
        """Returns the nodes that the pod's bounds are to, themselves or through a workload that runs there."""
        names = {name for _, name in references(pod)}
        return names | {each.node for key in self.workloads_bounding(pod) for each in self._placed(key)}

    def _placed(self, key: WorkloadKey) -> Iterator[PlacedPod]:
        for placed in self.inputs.workloads.by_name.get(key, {}).values():
            yield from placed


def references(pod: ClusterPod) -> Iterator[WorkloadKey]:
    """Namespace and name of each node or workload that a bound of the pod is to; the namespace is the pod's own where
    the bound names none."""
    for bound in valid_bounds(PodInfo.of(pod)):
        name = TargetName.of(bound.reference)
        yield name.namespace or pod.namespace, name.name


def violation(situation: Situation, pod: ClusterPod) -> DelayEvidence | None:
    """Returns the bound that the pod's delay has left, by a measured value, and by how much; the worst of several.

    What is unknown, stale, lost or doubted has not left its bound.
    """
    info, inputs = PodInfo.of(pod), situation.inputs
    evaluated = evaluate_bounds(valid_bounds(info), info, situation.candidates, inputs)
    outcomes = (
        each.evaluation.outcome[each.evaluation.index.position(pod.node)]
        for each in evaluated
        if not isinstance(each, NoTarget)
    )
    if Outcome.MEASURED_OVER not in outcomes:
        return None
    evidence = delay_evidence(info, (pod.node,), inputs).distances.get(pod.node, ())
    measured = (each for each in evidence if not (each.estimated or each.why or each.doubt))
    over = [each for each in measured if each.rtt_ms is not None and each.rtt_ms > each.bound_ms]
    return max(over, key=lambda each: (each.rtt_ms or 0) - each.bound_ms, default=None)


def hardest(evidence: Sequence[DelayEvidence]) -> DelayEvidence | None:
    """Returns the bound that decides on a node: one that is unknown, or the one that it misses by most; None: no
    evidence."""
    return max(evidence, key=lambda each: math.inf if (excess := excess_ms(each)) is None else excess, default=None)


def excess_ms(evidence: DelayEvidence) -> float | None:
    """Returns by how much a bound is missed; below 0: it is kept; None: that is unknown."""
    deciding = deciding_ms(evidence)
    return None if deciding is None else deciding - evidence.bound_ms


def deciding_ms(evidence: DelayEvidence) -> float | None:
    """Returns the round trip that the bound is held against: of an estimate, the interval's upper end."""
    return evidence.high_ms if evidence.estimated and evidence.high_ms is not None else evidence.rtt_ms


def counted(reasons: Mapping[str, str]) -> str:
    """Sums up reasons as kube-scheduler does: each reason with its number of nodes, the most frequent
    first."""
    counts = sorted(Counter(reasons.values()).items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{number} {reason}" for reason, number in counts) or "there is no other node"


class _Bounds:
    """Knows which pods of a cluster have delay bounds, and to which workloads; they are found when somebody asks."""

    def __init__(self, cluster: Cluster, inputs: DecisionInputs) -> None:
        self._cluster, self._workloads = cluster, inputs.workloads.by_name

    @cached_property
    def pods(self) -> Mapping[str, ClusterPod]:
        return {uid: pod for uid, pod in self._cluster.pods.items() if PodInfo.of(pod).has_delay_bounds}

    @cached_property
    def to(self) -> Mapping[WorkloadKey, Sequence[str]]:
        """Returns what bounds are to → UIDs of the pods with such a bound."""
        found: dict[WorkloadKey, list[str]] = {}
        for pod in self.pods.values():
            for key in dict.fromkeys(references(pod)):
                found.setdefault(key, []).append(pod.uid)
        return found

    def workloads_of(self, pod: ClusterPod) -> set[WorkloadKey]:
        """Returns the workloads of the pod that some bound is to: its own, and others that the index counts it to."""
        return {workload_key(pod), *self._listed_in.get((pod.namespace, pod.name), ())} & self.to.keys()

    @cached_property
    def _listed_in(self) -> Mapping[tuple[str, str], Sequence[WorkloadKey]]:
        found: dict[tuple[str, str], list[WorkloadKey]] = {}
        for key in self.to:
            for pods in self._workloads.get(key, {}).values():
                for placed in pods:
                    found.setdefault((key[0], placed.pod), []).append(key)
        return found


class _SupposedWorkloads(Mapping[WorkloadKey, Mapping[str, PlacedPods]]):
    """WorkloadIndex.by_name with some pods elsewhere. A workload is made when it is asked for: few are.

    places: namespace and name of a pod → its node now; "": it has none.
    members: workload → kind and name of the pods that were put on a node.
    """

    def __init__(
        self,
        base: Mapping[WorkloadKey, Mapping[str, PlacedPods]],
        places: Overlay[tuple[str, str], str],
        members: Overlay[WorkloadKey, tuple[tuple[str, str], ...]],
    ) -> None:
        self._base, self._places, self._members = base, places, members
        self._made: dict[WorkloadKey, Mapping[str, PlacedPods]] = {}

    @classmethod
    def of(cls, workloads: WorkloadIndex) -> "_SupposedWorkloads":
        by_name = workloads.by_name
        return by_name if isinstance(by_name, cls) else cls(by_name, Overlay({}), Overlay({}))

    def with_places(self, places: Iterable[tuple[ClusterPod, str]]) -> "_SupposedWorkloads":
        """Returns the situation with each pod on its node; "": it has none."""
        by_pod, joining = dict[tuple[str, str], str](), dict[WorkloadKey, tuple[tuple[str, str], ...]]()
        for pod, node in places:
            by_pod[pod.namespace, pod.name] = node
            key, member = workload_key(pod), (pod.workload.partition("/")[0], pod.name)
            before = joining.get(key) or self._members.get(key, ())
            if node not in ("", LOST) and member not in before:
                joining[key] = (*before, member)
        return _SupposedWorkloads(self._base, self._places.replaced(by_pod), self._members.replaced(joining))

    def __getitem__(self, key: WorkloadKey) -> Mapping[str, PlacedPods]:
        if key not in self._made:
            self._made[key] = self._workload(key)
        return self._made[key]

    def _workload(self, key: WorkloadKey) -> Mapping[str, PlacedPods]:
        kinds = {kind: list(placed) for kind, placed in self._base.get(key, {}).items()}
        if not kinds and key not in self._members:
            raise KeyError(key)
        for kind, name in self._members.get(key, ()):
            placed = kinds.setdefault(kind, [])
            if all(each.pod != name for each in placed):
                placed.append(PlacedPod(name, ""))
        return {kind: tuple(self._now(key[0], placed)) for kind, placed in kinds.items()}

    def _now(self, namespace: str, placed: Iterable[PlacedPod]) -> Iterator[PlacedPod]:
        for each in placed:
            node = self._places.get((namespace, each.pod), each.node)
            if node:
                yield PlacedPod(each.pod, node)

    def __iter__(self) -> Iterator[WorkloadKey]:
        yield from self._base
        yield from (key for key in self._members if key not in self._base)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def with_workloads_of(cluster: Cluster, inputs: DecisionInputs) -> DecisionInputs:
    """Returns the inputs with each workload where the cluster's pods of it are."""
    table: dict[WorkloadKey, dict[str, list[PlacedPod]]] = {}
    for pod in cluster.pods.values():
        placed = table.setdefault(workload_key(pod), {}).setdefault(pod.workload.partition("/")[0], [])
        if pod.node:
            placed.append(PlacedPod(pod.name, pod.node))
    by_name = {key: {kind: tuple(placed) for kind, placed in kinds.items()} for key, kinds in table.items()}
    return replace(inputs, workloads=WorkloadIndex(by_name, inputs.now))


def with_devices_of(cluster: Cluster, inputs: DecisionInputs) -> DecisionInputs:
    """Returns the inputs with the devices that the cluster's nodes and pods tell of, unless devices are followed."""
    if inputs.devices.followed:
        return inputs
    nodes = {name: node_devices(node, cluster.pods_on(name)) for name, node in cluster.nodes.items()}
    return replace(inputs, devices=DeviceInputs(True, {name: each for name, each in nodes.items() if each.allocatable}))


def _moved(before: Cluster, pods: Mapping[str, ClusterPod | None]) -> Iterator[tuple[ClusterPod, str, str]]:
    """Yields each pod that these changes bring to another node, with its node before and after; "": it has none."""
    for uid, pod in pods.items():
        old = before.pods.get(uid)
        was, now = old.node if old else "", pod.node if pod else ""
        of = pod or old
        if of is not None and was != now:
            yield of, was, now


def _with_moved_demands(inputs: DecisionInputs, moved: Iterable[tuple[ClusterPod, str, str]]) -> DecisionInputs:
    devices = dict[str, NodeDevices]()
    for pod, was, now in moved:
        for node in filter(None, (was, now) if pod.devices is not None else ()):
            there = devices.get(node) or inputs.devices.nodes.get(node, NO_DEVICES)
            devices[node] = _with_demand(there, pod.uid, pod.devices if node == now else None)
    return inputs.with_devices_of(devices) if devices else inputs


def _without_demand_of(pod: ClusterPod, cluster: Cluster, inputs: DecisionInputs) -> DecisionInputs:
    """Returns the inputs when the pod has no devices yet."""
    there = cluster.pods.get(pod.uid)
    node = inputs.devices.nodes.get(there.node) if there else None
    if there is None or node is None or pod.uid not in node.pods:
        return inputs
    return inputs.with_devices_of({there.node: node.without((pod.uid,))})


def _with_demand(node: NodeDevices, uid: str, demand: DeviceDemand | None) -> NodeDevices:
    """Returns the devices with what this pod has of them; None: it has nothing."""
    others = node.without((uid,))
    return others if demand is None else replace(others, pods={**others.pods, uid: demand})
