"""Decision inputs in which workloads are where the pods of a cluster are, as a plan would have them."""

from collections import defaultdict

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.workloads import PlacedPod, PlacedPods, WorkloadIndex


def with_workloads_of(cluster: Cluster, inputs: DecisionInputs) -> DecisionInputs:
    """The inputs with each workload where the cluster's pods of it are."""
    table: dict[tuple[str, str], dict[str, PlacedPods]] = defaultdict(dict)
    for pod in cluster.pods.values():
        kind, _, name = pod.workload.partition("/")
        placed = (PlacedPod(pod.name, pod.node),) if pod.node else ()
        kinds = table[pod.namespace, name]
        kinds[kind] = (*kinds.get(kind, ()), *placed)
    return replace(inputs, workloads=WorkloadIndex(dict(table), inputs.now))
