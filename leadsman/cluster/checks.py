"""One requirement of a pod against every node at once."""

from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np

from leadsman.cluster.constraints import PodAffinityTerm
from leadsman.cluster.model import Cluster
from leadsman.cluster.node_columns import Ints, Mask, NodeColumns
from leadsman.cluster.pod import ClusterPod


class Candidate:
    """A pod that looks for a node, in the cluster without it.

    columns: over the nodes of the cluster.
    """

    def __init__(self, cluster: Cluster, pod: ClusterPod):
        self.pod = pod
        self.cluster = cluster.without_pod(pod.uid) if pod.uid in cluster.pods else cluster
        self.columns = NodeColumns(self.cluster)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; the API server gives each its name as a label."""
        return self.cluster.namespaces.get(namespace, {"kubernetes.io/metadata.name": namespace})

    def namespaces_key(self, terms: Iterable[PodAffinityTerm]) -> Hashable:
        """What these terms look at beside pods: the labels of namespaces, or None."""
        if all(term.namespace_selector is None for term in terms):
            return None
        return frozenset((name, *sorted(labels.items())) for name, labels in self.cluster.namespaces.items())

    def domain_counts(self, label: str, by_node: Mapping[str, int]) -> Ints:
        """Domain number → sum over the domain's nodes; see NodeColumns.domains."""
        domain_of_node, numbers = self.columns.domains(label)
        totals = np.zeros(len(numbers), np.int64)
        for node, count in by_node.items():
            domain = domain_of_node[self.columns.position[node]] if node in self.cluster.nodes else -1
            if domain >= 0:
                totals[domain] += count
        return totals


class Check:
    """What one requirement says of every node.

    refused: one value a node.
    reason: why, or a function that says why of the node at a position.
    kind: what it is about, in the same words for every node.
    """

    __slots__ = ("_reason", "kind", "refused")

    def __init__(self, refused: Mask, reason: str | Callable[[int], str], kind: str = ""):
        self.refused, self._reason = refused, reason
        self.kind = reason if isinstance(reason, str) else kind

    def reason(self, position: int) -> str:
        """Why it refuses the node at this position."""
        return self._reason if isinstance(self._reason, str) else self._reason(position)


def everywhere(candidate: Candidate, reason: str) -> Check:
    """A check that refuses every node."""
    return Check(np.ones(len(candidate.columns.names), np.bool_), reason)
