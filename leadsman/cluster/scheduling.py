"""Predicts what kube-scheduler's required plugins say of a pod on every node: may it be bound there, and if not, why.

Preferences only rank nodes and are left out. So are CSIStorageCapacity, claims of Dynamic Resource Allocation, pods
that are nominated to a node by a preemption, and the plugin NodeName: a pod that names its node is not scheduled.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from leadsman.cluster import checks, pod_checks
from leadsman.cluster.checks import Candidate, Check, everywhere
from leadsman.cluster.model import Cluster
from leadsman.cluster.node_columns import Mask
from leadsman.cluster.pod import ClusterPod


def _gates(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go."""
    if candidate.pod.gated:
        yield everywhere(candidate, "the pod has scheduling gates, so kube-scheduler does not look at it")


def _known_labels(candidate: Candidate) -> Iterator[Check]:
    """No plugin of kube-scheduler: what was cut from the labels could be what a selector asks for."""
    if candidate.pod.labels_cut:
        yield everywhere(candidate, "the pod has too many labels to read all of them; remove some")
    cut = candidate.columns.of_nodes("labels cut", lambda node: node.labels_cut > 0, absent=False)
    yield Check(cut, "the node has too many labels to read all of them; remove some")


PLUGINS: Sequence[Callable[[Candidate], Iterator[Check]]] = (
    _gates,
    _known_labels,
    checks.unschedulable,
    checks.taints,
    checks.node_affinity,
    checks.host_ports,
    checks.room,
    checks.claims,
    checks.attach_limits,
    pod_checks.spread,
    pod_checks.anti_affinity_of_others,
    pod_checks.anti_affinity,
    pod_checks.affinity,
)
"""Checks that are asked, in the order in which reasons are given."""


class Feasibility:
    """Tells which nodes may have the pod. A pod that is bound is judged as if it were taken off its node first.

    allowed: True where nothing refuses the pod; in the order of `names`.
    """

    def __init__(self, cluster: Cluster, pod: ClusterPod):
        candidate = Candidate(cluster, pod)
        self._checks = [check for plugin in PLUGINS for check in plugin(candidate)]
        self._columns = candidate.columns
        self.names = candidate.columns.names
        self.allowed: Mask = candidate.columns.present.copy()
        for check in self._checks:
            self.allowed &= ~check.refused

    @property
    def nodes(self) -> tuple[str, ...]:
        """Returns the nodes that may have the pod."""
        names = self.names  # many are asked for at once: lists of positions are read faster than arrays
        return tuple([names[position] for position in np.flatnonzero(self.allowed).tolist()])

    def among(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Returns those of the nodes that may have the pod, in the order of `names`. Few are looked up one by one: most
        pods with a bound have a handful."""
        position, allowed = self._columns.position, self.allowed
        found = sorted(at for node in nodes if (at := position.get(node)) is not None and allowed[at])
        return tuple([self.names[at] for at in found])

    def kinds(self) -> dict[str, str]:
        """Maps each node that may not have the pod to the kind of its first reason."""
        found: dict[str, str] = {}
        left = self._columns.present.copy()
        for check in self._checks:
            found |= dict.fromkeys((self.names[at] for at in np.flatnonzero(left & check.refused)), check.kind)
            left &= ~check.refused
        return found

    def refusals(self, node: str) -> tuple[str, ...]:
        """Returns every reason why this node may not have the pod; () if it may. Raises KeyError for a node that
        is not there."""
        position = self._columns.position[node]
        if not self._columns.present[position]:
            raise KeyError(node)
        return tuple(check.reason(position) for check in self._checks if check.refused[position])
