"""Which failures take a node down, and which nodes a failure takes down."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.model import BackupScope, FailureDomain, Uncovered

_WIDER = {
    BackupScope.NONE: (),
    BackupScope.NODE: (BackupScope.NODE,),
    BackupScope.RACK: (BackupScope.NODE, BackupScope.RACK),
    BackupScope.ZONE: (BackupScope.NODE, BackupScope.RACK, BackupScope.ZONE),
}


class Failure(Struct, frozen=True):
    """A domain fails.

    nodes: those that fail with it.
    pods: those that stand there and fall.
    """

    domain: FailureDomain
    nodes: frozenset[str]
    pods: tuple[ClusterPod, ...]


class FailureDomains:
    """The failure domains of a cluster's nodes. The rack is that of the label, else what the node's agent reports."""

    def __init__(self, cluster: Cluster, inputs: DecisionInputs, rack_label: str) -> None:
        self._cluster = cluster
        self._of_node = {
            node.name: {
                BackupScope.NODE: node.name,
                BackupScope.RACK: f"{node.zone}/{rack}" if (rack := rack_of(node, inputs, rack_label)) else "",
                BackupScope.ZONE: node.zone,
            }
            for node in cluster.nodes.values()
        }
        members: dict[FailureDomain, list[str]] = defaultdict(list)
        for node, names in self._of_node.items():
            for scope, name in names.items():
                members[FailureDomain(scope, name)].append(node)
        self._members: Mapping[FailureDomain, Sequence[str]] = members

    def failure(self, domain: FailureDomain) -> Failure:
        """What happens when the domain fails."""
        nodes = self._members[domain]
        return Failure(domain, frozenset(nodes), tuple(pod for node in nodes for pod in self._cluster.pods_on(node)))

    def survived_by(self, scope: BackupScope, node: str) -> tuple[FailureDomain, ...] | Uncovered:
        """The failures that a pod on `node` is to survive: those of its scope and of the narrower ones.

        A rack or zone that is asked for must be known. A rack is optional for a pod that asks for another zone.
        """
        names = self._of_node[node]
        if not names[scope]:
            return Uncovered(f"the {scope} of node {node} is unknown, so no node is known to be in another {scope}")
        return tuple(FailureDomain(each, names[each]) for each in _WIDER[scope] if names[each])


def rack_of(node: ClusterNode, inputs: DecisionInputs, label: str) -> str:
    """The node's rack by its label, else as its agent reports it; "": unknown."""
    state = inputs.snapshot.nodes.get(node.name)
    reported = state.identity.rack if state is not None and state.identity is not None else ""
    return node.rack(label) or reported
