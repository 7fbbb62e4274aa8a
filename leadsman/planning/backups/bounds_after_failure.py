"""Which nodes keep a pod's delay bounds after a failure, when the replicas it is bound to have moved to their backups.

The delays are those of now, when every node still reports: after the failure nobody can measure them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.overlay import Overlay
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.delay.evaluation import evaluate_bounds, pair_rows
from leadsman.decision.delay.targets import NoTarget, TargetName
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo, Refusal
from leadsman.decision.workloads import PlacedPod, PlacedPods
from leadsman.planning.backups.domains import Failure
from leadsman.planning.backups.model import Backups

WorkloadKey = tuple[str, str]

NO_BACKUP = "no backup"
"""The node of a replica that falls and has no backup: no node has this name, so no delay to it is ever known. A bound
to all replicas is then not kept; one to the nearest looks at the others."""


def pod_info(pod: ClusterPod) -> PodInfo:
    """The pod as decisions take it."""
    return PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)


class BoundsAfterFailure:
    """The bounds of a cluster's pods, asked about one failure after another.

    bounded: UID → pod, of all pods with a bound.
    """

    def __init__(self, cluster: Cluster, inputs: DecisionInputs) -> None:
        self._inputs = inputs
        self._nodes = CandidateNodes.of(cluster.nodes)
        self.bounded = {uid: pod for uid, pod in cluster.pods.items() if pod.node and pod_info(pod).has_delay_bounds}
        self._bounded_to: dict[WorkloadKey, list[ClusterPod]] = defaultdict(list)
        for pod in self.bounded.values():
            for key in self.workloads_bounding(pod):
                self._bounded_to[key].append(pod)
        self._workloads_of: dict[tuple[str, str], list[WorkloadKey]] = defaultdict(list)
        for key in self._bounded_to:
            for placed in self._placed(key):
                self._workloads_of[key[0], placed.pod].append(key)

    def workloads_bounding(self, pod: ClusterPod) -> Iterator[WorkloadKey]:
        """Namespace and name of each workload that a bound of the pod is to."""
        for bound in valid_bounds(pod_info(pod)):
            name = TargetName.of(bound.reference)
            key = (name.namespace or pod.namespace, name.name)
            if key in self._inputs.workloads.by_name:
                yield key

    def tied_to(self, pod: ClusterPod) -> set[tuple[str, str]]:
        """Namespace and name of the pods whose bounds may turn on where this one is, and the other way round."""
        keys = self._workloads_of.get((pod.namespace, pod.name), ())
        dependants = {(each.namespace, each.name) for key in keys for each in self._bounded_to[key]}
        workloads = [*keys, *self.workloads_bounding(pod)]
        return dependants | {(key[0], placed.pod) for key in workloads for placed in self._placed(key)}

    def reference_nodes(self, pod: ClusterPod) -> set[str]:
        """The nodes that the pod's bounds are to, themselves or through a workload that runs there."""
        names = {TargetName.of(bound.reference).name for bound in valid_bounds(pod_info(pod))}
        placed = {each.node for key in self.workloads_bounding(pod) for each in self._placed(key)}
        return names | placed

    def round_trips_ms(self, pod: ClusterPod, node: str) -> dict[str, float]:
        """Reference node of the pod's bounds → round trip to `node` as it is known now, measured or estimated."""
        found: dict[str, float] = {}
        info = pod_info(pod)
        for each in evaluate_bounds(valid_bounds(info), info, self._nodes, self._inputs):
            if not isinstance(each, NoTarget):
                position = each.evaluation.index.position(node)
                found |= {row.reference: float(row.rtt_ms[position]) for row in pair_rows(each, self._inputs)}
        return {reference: rtt_ms for reference, rtt_ms in found.items() if not math.isnan(rtt_ms)}

    def refusals(self, pod: ClusterPod, failure: Failure, backups: Backups) -> Mapping[str, Refusal]:
        """Node → which bound of the pod it would not keep after the failure, the fallen pods being on their backups."""
        inputs = self._inputs_after(failure, backups)
        return DelayFilter().refusals(pod_info(pod), self._nodes, inputs)

    def broken_survivor(self, pod: ClusterPod, failure: Failure, backups: Backups) -> ClusterPod | None:
        """A pod whose bound to this one's workload is not kept once this one is on its backup: one that falls too and
        has a backup, or one that stays and keeps the bound now."""
        keys = self._workloads_of.get((pod.namespace, pod.name), ())
        dependants = {each.uid: each for key in keys for each in self._bounded_to[key] if each.uid != pod.uid}
        if not dependants:
            return None
        inputs = self._inputs_after(failure, backups)
        for each in dependants.values():
            falls = each.node in failure.nodes
            node = _landing(each, failure, backups) if falls else each.node
            if node and (falls or self._keeps(each, node, self._inputs)) and not self._keeps(each, node, inputs):
                return each
        return None

    def _keeps(self, pod: ClusterPod, node: str, inputs: DecisionInputs) -> bool:
        return node not in DelayFilter().refusals(pod_info(pod), self._nodes, inputs)

    def _placed(self, key: WorkloadKey) -> Iterator[PlacedPod]:
        for placed in self._inputs.workloads.by_name[key].values():
            yield from placed

    def _inputs_after(self, failure: Failure, backups: Backups) -> DecisionInputs:
        landing = {(pod.namespace, pod.name): _landing(pod, failure, backups) for pod in failure.pods}
        keys = {key for name in landing for key in self._workloads_of.get(name, ())}
        if not keys:
            return self._inputs
        by_name = self._inputs.workloads.by_name
        changed = {
            key: {kind: _moved(key[0], placed, landing) for kind, placed in by_name[key].items()} for key in keys
        }
        return replace(
            self._inputs, workloads=replace(self._inputs.workloads, by_name=Overlay(by_name).replaced(changed))
        )


def _landing(pod: ClusterPod, failure: Failure, backups: Backups) -> str:
    """Where a fallen pod goes; "": it has no backup for this failure."""
    backup = backups.get(pod.uid)
    return backup.node if backup and failure.domain in backup.domains else ""


def _moved(namespace: str, pods: PlacedPods, landing: Mapping[tuple[str, str], str]) -> PlacedPods:
    nodes = [landing.get((namespace, placed.pod), placed.node) or NO_BACKUP for placed in pods]
    return tuple(PlacedPod(placed.pod, node) for placed, node in zip(pods, nodes, strict=True))
