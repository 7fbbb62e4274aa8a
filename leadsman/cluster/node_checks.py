"""What a pod requires of the node itself: cordon, taints, labels, host ports, and room."""

from collections.abc import Callable, Iterator

from leadsman.cluster.checks import Candidate, Check
from leadsman.cluster.constraints import HostPort, PodConstraints, Taint, Toleration
from leadsman.cluster.model import NodePods
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.node_columns import Mask
from leadsman.cluster.resources import amount_text

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Who tolerates this may go to a cordoned node: DaemonSet pods do."""

_REPELLING = ("NoSchedule", "NoExecute")


def unschedulable(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go."""
    if not _tolerated(CORDON, candidate.pod.constraints.tolerations):
        refused = candidate.columns.of_nodes("cordoned", lambda node: node.unschedulable, absent=False)
        yield Check(refused, "the node is cordoned")


def taints(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go; the reason is the first that repels."""
    tolerations = candidate.pod.constraints.tolerations

    def reason(position: int) -> str:
        taint = repelling_taint(candidate.cluster.nodes[candidate.columns.names[position]], tolerations)
        return f"the pod does not tolerate the node's taint {taint.key}={taint.value}:{taint.effect}" if taint else ""

    yield Check(repelled(candidate), reason, "the node has a taint that the pod does not tolerate")


def repelled(candidate: Candidate) -> Mask:
    """The nodes with a taint that the pod does not tolerate."""
    tolerations = candidate.pod.constraints.tolerations
    return candidate.columns.of_nodes(
        ("repelled", tolerations), lambda node: repelling_taint(node, tolerations) is not None, absent=False
    )


def repelling_taint(node: ClusterNode, tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint of the node that keeps a pod with these tolerations away."""
    repelling = (taint for taint in node.taints if taint.effect in _REPELLING)
    return next((taint for taint in repelling if not _tolerated(taint, tolerations)), None)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(toleration.tolerates(taint) for toleration in tolerations)


def node_affinity(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go."""
    if candidate.pod.constraints.node_selector or candidate.pod.constraints.node_affinity is not None:
        yield Check(
            ~selected(candidate),
            "the node does not match the pod's nodeSelector or its required node affinity",
        )


def selected(candidate: Candidate) -> Mask:
    """The nodes that match the pod's nodeSelector and its required node affinity."""
    constraints = candidate.pod.constraints
    key = ("selected", constraints.node_selector, constraints.node_affinity)
    return candidate.columns.of_nodes(key, lambda node: _selects(constraints, node), absent=False)


def _selects(constraints: PodConstraints, node: ClusterNode) -> bool:
    if any(node.labels.get(label) != value for label, value in constraints.node_selector):
        return False
    terms = constraints.node_affinity
    return terms is None or any(term.matches(node.name, node.labels) for term in terms)


def host_ports(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/nodeports/node_ports.go."""
    for port in candidate.pod.constraints.host_ports:
        taken = candidate.columns.of_pods(("host port", port), _takers(port))
        yield Check(taken > 0, f"host port {port.port}/{port.protocol} is taken on the node")


def _takers(port: HostPort) -> Callable[[NodePods], int]:
    def takers(there: NodePods) -> int:
        ports = (taken for pod in there.pods for taken in pod.constraints.host_ports)
        return sum(port.conflicts(taken) for taken in ports)

    return takers


def room(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/noderesources/fit.go: pod slots, CPU, memory and every extended resource."""
    return (_room_of(candidate, resource, amount) for resource, amount in candidate.pod.requests.items())


def _room_of(candidate: Candidate, resource: str, amount: int) -> Check:
    columns = candidate.columns
    allocatable = columns.of_nodes(("allocatable", resource), lambda node: node.allocatable.amount(resource), absent=0)
    free = allocatable - columns.of_pods(("requested", resource), lambda there: there.requested.amount(resource))

    def reason(position: int) -> str:
        asked, left = amount_text(resource, amount), amount_text(resource, int(free[position]))
        return f"the pod requests {asked}, of which the node has {left} free"

    return Check(amount > free, reason, f"too little {resource} is free")
