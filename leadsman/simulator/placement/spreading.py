"""Default spreading: as kube-scheduler places pods that nobody tells it more of. It knows no delays and no backups."""

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.situation import with_workloads_of
from leadsman.simulator.placement.placement import Placement

MAX_NODE_SCORE = 100.0


def default_spreading(cluster: Cluster, inputs: DecisionInputs) -> Placement:
    for pod in cluster.unbound_pods:
        if node := spread(cluster, pod):
            cluster = cluster.with_pod(pod, node)
    return Placement(cluster, with_workloads_of(cluster, inputs), reschedule=spread)


def spread(cluster: Cluster, pod: ClusterPod) -> str:
    """The node with the fewest pods of the workload, of those the one with most free; "": none takes the pod.

    kube-scheduler weighs its spreading by system default constraints (PodTopologySpread, weight 2) over least allocated
    (NodeResourcesFit, weight 1): of the workload's pods one more on a node outweighs what is free.
    """
    siblings = dict.fromkeys(cluster.nodes, 0)
    for other in cluster.pods.values():
        if other.workload == pod.workload and other.namespace == pod.namespace and other.node in siblings:
            siblings[other.node] += 1
    allowed = Feasibility(cluster, pod).nodes
    return min(allowed, key=lambda node: (siblings[node], -least_allocated(cluster, pod, node), node), default="")


def least_allocated(cluster: Cluster, pod: ClusterPod, node: str) -> float:
    """0..100: the mean share of CPU and memory that stays free with the pod; of what the node has.

    pkg/scheduler/framework/plugins/noderesources/least_allocated.go.
    """
    free, size = cluster.free(node) - pod.requests, cluster.nodes[node].allocatable
    shares = [max(free.amount(name), 0) / size.amount(name) for name in ("cpu", "memory") if size.amount(name)]
    return MAX_NODE_SCORE * sum(shares) / max(len(shares), 1)
