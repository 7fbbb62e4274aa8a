"""Places pods by the rule of kubernetes-edge-scheduler, as far as it is known: by memory and the first bound only.

A pod goes to the node with most free memory of those that keep its bound, the first of several; one without a bound
to such a cloud node.
Where none has room, one pod that has an alternative within its own bound is moved. A placeholder on another node within
the bound covers the pod. Placeholders are shared: each is as large as the most that one node's failure brings there. A
pod for which no placeholder finds room is placed all the same.

With clustering the nodes within a bound of d ms are those of its reference's cluster: a clique of the graph of all
pairs at most d apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.decision.delay.bounds import DelayBound, valid_bounds
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import ROLE_LABEL
from leadsman.network.layers import build_layer
from leadsman.planning.backups.backup_plan import Backup, BackupPlan, BackupScope, FailureDomain, Uncovered
from leadsman.planning.situation import Situation, with_workloads_of
from leadsman.simulator.placements import Placement
from leadsman.sources.delay.matrix import DelayMatrix

CLOUD = "cloud"
NO_ROOM = "no node within the bound has room for a placeholder"


class EdgeRule:
    """Places by that rule, as a Policy. clustering: raises ValueError unless the delays are a matrix."""

    def __init__(self, *, clustering: bool) -> None:
        self._clustering = clustering

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        run = _Run(cluster, inputs, _Clusters.of(inputs) if self._clustering else None)
        for pod in cluster.unbound_pods:
            run.place(pod)
        return Placement(run.cluster, run.inputs, run.plan(), run.moves)


class _Clusters:
    """The clusters of each layer that was asked for."""

    def __init__(self, matrix: DelayMatrix) -> None:
        self._names = list(matrix.rows)
        rows = np.array([matrix.rows[name] for name in self._names])
        self._rtt_ms = np.maximum(matrix.rtt_ms, matrix.rtt_ms.T)[np.ix_(rows, rows)]
        self._cluster_of: dict[float, dict[str, int]] = {}

    @classmethod
    def of(cls, inputs: DecisionInputs) -> "_Clusters":
        for view in inputs.delay_views:
            if isinstance(view, DelayMatrix):
                return cls(view)
        raise ValueError("clustering needs a delay matrix: give --delay_matrix, or --generate with peers=0")

    def around(self, node: str, limit_ms: float) -> set[str]:
        """Returns the nodes of the cluster that this node is in."""
        if limit_ms not in self._cluster_of:
            layer = build_layer(self._rtt_ms, limit_ms)
            self._cluster_of[limit_ms] = dict(zip(self._names, layer.group_of.tolist(), strict=True))
        of = self._cluster_of[limit_ms]
        return {other for other in of if of[other] == of.get(node, -1)}


class _Run:
    """One run of the edge rule.

    free: memory that neither pods nor placeholders take. covered: backup node → node that fails → its pods' UIDs.
    """

    def __init__(self, cluster: Cluster, inputs: DecisionInputs, clusters: _Clusters | None) -> None:
        self.cluster, self.inputs, self.moves = cluster, with_workloads_of(cluster, inputs), 0
        self._clusters = clusters
        self._used = {node: cluster.requested(node).memory_bytes for node in cluster.nodes}
        self._backup_of: dict[str, str] = {}
        self._needs: dict[str, dict[str, int]] = {node: defaultdict(int) for node in cluster.nodes}

    def place(self, pod: ClusterPod) -> None:
        allowed, size = self._allowed(pod), pod.requests.memory_bytes
        with_room = [node for node in allowed if self._free(node) >= size]
        if with_room:
            self._put(pod, self._most_free(with_room), allowed)
        elif move := self._room_move(allowed, size):
            moved, to, elsewhere = move
            place = moved.node
            self._take(moved)
            self._put(pod, place, allowed)
            self._put(moved, to, elsewhere)
            self.moves += 1

    def plan(self) -> BackupPlan:
        pods: dict[str, Backup | Uncovered] = {}
        fallen: dict[str, dict[str, Resources]] = defaultdict(lambda: defaultdict(lambda: ZERO))
        for uid, pod in self.cluster.pods.items():
            if not pod.node or not PodInfo.of(pod).has_delay_bounds:
                continue
            backup = self._backup_of.get(uid)
            if backup is None:
                pods[uid] = Uncovered(NO_ROOM)
            else:
                pods[uid] = Backup(backup, (FailureDomain(BackupScope.NODE, pod.node),))
                fallen[backup][pod.node] += pod.requests
        return BackupPlan(pods, {node: _largest(each.values()) for node, each in fallen.items()})

    def _allowed(self, pod: ClusterPod) -> list[str]:
        """Returns the nodes within the pod's first bound; the cloud nodes for a pod without one."""
        info = PodInfo.of(pod)
        if not info.has_delay_bounds:
            return [name for name, node in self.cluster.nodes.items() if node.labels.get(ROLE_LABEL) == CLOUD]
        refused = Situation(self.cluster, self.inputs).bound_refusals(pod)
        allowed = [node for node in self.cluster.nodes if node not in refused]
        if self._clusters is None:
            return allowed
        bound = valid_bounds(info)[0]
        around = [self._clusters.around(node, bound.ms) for node in self._references(pod, bound)]
        return [node for node in allowed if all(node in each for each in around)]

    def _references(self, pod: ClusterPod, bound: DelayBound) -> Iterator[str]:
        if bound.reference in self.cluster.nodes:
            yield bound.reference
            return
        for placed in self.inputs.workloads.by_name.get((pod.namespace, bound.reference), {}).values():
            yield from (each.node for each in placed)

    def _free(self, node: str) -> int:
        return self.cluster.nodes[node].allocatable.memory_bytes - self._used[node] - self._placeholder(node)

    def _placeholder(self, node: str) -> int:
        return max(self._needs[node].values(), default=0)

    def _most_free(self, nodes: Iterable[str]) -> str:
        return max(nodes, key=self._free, default="")

    def _room_move(self, allowed: list[str], size: int) -> tuple[ClusterPod, str, list[str]] | None:
        """Returns the pod whose place is enough, the node that it can go to, and all that are within its bound."""
        for node in sorted(allowed, key=self._free, reverse=True):
            for other in self.cluster.pods_on(node):
                enough = self._free(node) + other.requests.memory_bytes >= size
                if not enough or not PodInfo.of(other).has_delay_bounds:
                    continue
                elsewhere = self._allowed(other)
                room = [to for to in elsewhere if to != node and self._free(to) >= other.requests.memory_bytes]
                if room:
                    return other, self._most_free(room), elsewhere
        return None

    def _put(self, pod: ClusterPod, node: str, allowed: list[str]) -> None:
        self.cluster = self.cluster.with_pod(pod, node)
        self.inputs = with_workloads_of(self.cluster, self.inputs)
        size = pod.requests.memory_bytes
        self._used[node] += size
        if not PodInfo.of(pod).has_delay_bounds:
            return
        growth = {
            other: max(self._needs[other][node] + size - self._placeholder(other), 0)
            for other in allowed
            if other != node
        }
        fitting = [other for other, more in growth.items() if more <= self._free(other)]
        if fitting:
            backup = min(fitting, key=lambda other: (growth[other], -self._free(other)))
            self._backup_of[pod.uid] = backup
            self._needs[backup][node] += size

    def _take(self, pod: ClusterPod) -> None:
        size = pod.requests.memory_bytes
        self._used[pod.node] -= size
        if backup := self._backup_of.pop(pod.uid, ""):
            self._needs[backup][pod.node] -= size


def _largest(each: Iterable[Resources]) -> Resources:
    largest = ZERO
    for resources in each:
        largest = largest.maximum(resources)
    return largest
