"""The delay bounds of a cluster's pods, with some pods thought to be on other nodes."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.overlay import Overlay
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.evaluation import evaluate_bounds
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.outcomes import Outcome
from leadsman.decision.delay.targets import NoTarget, TargetName
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, DelayEvidence, PodInfo, Refusal
from leadsman.decision.workloads import PlacedPod

WorkloadKey = tuple[str, str]
"""Namespace and name."""

Placed = Mapping[str, str]
"""UID → the node that the pod is thought to be on."""

NOWHERE_ELSE: Placed = {}


def workload_key(namespace: str, workload: str) -> WorkloadKey:
    """Of `deployment/web`."""
    return namespace, workload.partition("/")[2]


class Excess(Struct, frozen=True):
    """By how much a node misses a bound. rtt_ms: measured or estimated."""

    to: str
    bound_ms: float
    rtt_ms: float

    @property
    def over_ms(self) -> float:
        return self.rtt_ms - self.bound_ms


class SupposedBounds:
    """Asked about one supposed placement after another.

    bounded: UID → pod, of all pods with a bound, also of those without a node.
    """

    def __init__(self, cluster: Cluster, inputs: DecisionInputs) -> None:
        self._cluster, self._inputs, self._nodes = cluster, inputs, CandidateNodes.of(cluster.nodes)
        self.bounded = {uid: pod for uid, pod in cluster.pods.items() if _pod_info(pod).has_delay_bounds}
        self._bounded_to: dict[WorkloadKey, list[ClusterPod]] = defaultdict(list)
        for pod in self.bounded.values():
            for key in self._references(pod):
                self._bounded_to[key].append(pod)

    def violation(self, pod: ClusterPod) -> DelayEvidence | None:
        """The bound that the pod's delay has left, by a measured value, and by how much; the worst of several.

        What is unknown, stale, lost or doubted has not left its bound.
        """
        info = _pod_info(pod)
        evaluated = evaluate_bounds(valid_bounds(info), info, self._nodes, self._inputs)
        outcomes = (
            each.evaluation.outcome[each.evaluation.index.position(pod.node)]
            for each in evaluated
            if not isinstance(each, NoTarget)
        )
        if Outcome.MEASURED_OVER not in outcomes:
            return None
        evidence = delay_evidence(info, (pod.node,), self._inputs).distances.get(pod.node, ())
        over = [each for each in evidence if _is_measured_over(each)]
        return max(over, key=lambda each: (each.rtt_ms or 0) - each.bound_ms, default=None)

    def refusals(self, pod: ClusterPod, placed: Placed = NOWHERE_ELSE) -> Mapping[str, Refusal]:
        """Node → which of the pod's bounds it would not keep."""
        return DelayFilter().refusals(_pod_info(pod), self._nodes, self.inputs_with(placed))

    def lost_bound(self, placed: Placed) -> str:
        """Which pod would not keep its bounds when these pods are placed so; "": none.

        The placed ones must keep all of theirs. Of the others those that keep them now.
        """
        pods = {uid: self._cluster.pods[uid] for uid in placed}
        after = self.inputs_with(placed)
        for uid, node in placed.items():
            if not self._keeps(pods[uid], node, after):
                return f"pod {pods[uid].namespace}/{pods[uid].name} would not keep its bound there"
        dependants = {
            each.uid: each
            for pod in pods.values()
            for each in self._bounded_to.get(workload_key(pod.namespace, pod.workload), ())
            if each.uid not in placed and each.node and not each.terminating
        }
        for each in dependants.values():
            if self._keeps(each, each.node, self._inputs) and not self._keeps(each, each.node, after):
                return f"pod {each.namespace}/{each.name} would lose its bound to it"
        return ""

    def excess(self, pod: ClusterPod, node: str) -> Excess | None:
        """The bound that the node misses by most; None where one is unknown there, or none is missed."""
        info = _pod_info(pod)
        missed = list[Excess]()
        for each in evaluate_bounds(valid_bounds(info), info, self._nodes, self._inputs):
            if isinstance(each, NoTarget):
                return None
            rtt_ms = float(each.evaluation.rtt_ms[each.evaluation.index.position(node)])
            if math.isnan(rtt_ms):
                return None
            if rtt_ms > each.bound.ms:
                missed.append(Excess(each.target.name, each.bound.ms, rtt_ms))
        return max(missed, key=lambda one: one.over_ms, default=None)

    def evidence(self, pod: ClusterPod, node: str) -> tuple[DelayEvidence, ...]:
        """How the node stands to each bound of the pod."""
        return delay_evidence(_pod_info(pod), (node,), self._inputs).distances.get(node, ())

    def related(self, pod: ClusterPod) -> set[WorkloadKey]:
        """The workloads whose places decide on the pod's bounds, and those on whose bounds its place decides."""
        own = workload_key(pod.namespace, pod.workload)
        bounded = {workload_key(each.namespace, each.workload) for each in self._bounded_to.get(own, ())}
        return {own, *self._references(pod), *bounded}

    def reference_names(self, pod: ClusterPod) -> frozenset[str]:
        """The names of nodes and workloads that the pod's bounds are to."""
        return frozenset(name for _, name in self._references(pod))

    def is_bound_to(self, pod: ClusterPod, other: ClusterPod) -> bool:
        """Whether a bound of the pod may be to the workload of the other one."""
        return workload_key(other.namespace, other.workload) in set(self._references(pod))

    def _references(self, pod: ClusterPod) -> Iterator[WorkloadKey]:
        for bound in valid_bounds(_pod_info(pod)):
            name = TargetName.of(bound.reference)
            yield name.namespace or pod.namespace, name.name

    def _keeps(self, pod: ClusterPod, node: str, inputs: DecisionInputs) -> bool:
        return node not in DelayFilter().refusals(_pod_info(pod), self._nodes, inputs)

    def inputs_with(self, placed: Placed) -> DecisionInputs:
        """The inputs when these pods are placed so."""
        if not placed:
            return self._inputs
        by_name = self._inputs.workloads.by_name
        changed: dict[WorkloadKey, dict[str, tuple[PlacedPod, ...]]] = {}
        for uid, node in placed.items():
            pod = self._cluster.pods[uid]
            key, kind = workload_key(pod.namespace, pod.workload), pod.workload.partition("/")[0]
            kinds = changed.setdefault(key, dict(by_name.get(key, {})))
            others = (each for each in kinds.get(kind, ()) if each.pod != pod.name)
            kinds[kind] = (*others, PlacedPod(pod.name, node))
        workloads = replace(self._inputs.workloads, by_name=Overlay(by_name).replaced(changed))
        return replace(self._inputs, workloads=workloads)


def _pod_info(pod: ClusterPod) -> PodInfo:
    return PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)


def _is_measured_over(each: DelayEvidence) -> bool:
    measured = each.rtt_ms is not None and not each.estimated and not each.why and not each.doubt
    return measured and (each.rtt_ms or 0.0) > each.bound_ms
