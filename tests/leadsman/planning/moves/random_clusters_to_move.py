"""Random small clusters in which pods look for other nodes, and what is judged by trying everything."""

from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod, DisruptionBudget
from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.decision.model import PodInfo
from tests.leadsman.planning.backups.random_clusters import inputs_of, random_case
from tests.leadsman.planning.moves.movable_pods import of_app
from tests.leadsman.planning.replacement.simulated_cluster import Matrix

PROTECTED = DisruptionBudget("shop", "protected", of_app("a"))


def random_cluster(seed: int) -> tuple[Cluster, Matrix, ClusterPod | None]:
    """A case of at most five nodes in which one bounded pod, if there is one, has lost its node and grown."""
    cluster, inputs = random_case(seed, nodes=5, pods=16)
    matrix = inputs.delay_views[0].rtt_ms  # type: ignore[attr-defined]
    bounded = [pod for pod in cluster.pods.values() if any(label.startswith("delay_") for label in pod.labels)]
    if not bounded:
        return cluster, matrix, None
    pending = replace(bounded[seed % len(bounded)], node="", phase="Pending")
    pending = replace(pending, requests=pending.requests + pending.requests - replace(pending.requests, cpu_millis=0))
    return cluster.with_pod(pending, ""), matrix, pending


def keeps(cluster: Cluster, matrix: Matrix, pod: ClusterPod) -> bool:
    """Whether the pod keeps its bounds where everything is now, room aside."""
    info = PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)
    return not info.has_delay_bounds or pod.node not in DelayFilter().refusals(
        info, tuple(cluster.nodes), inputs_of(placed_only(cluster), matrix)
    )


def placed_only(cluster: Cluster) -> Cluster:
    return cluster.changed(pods={pod.uid: None for pod in cluster.unbound_pods})


def loses_nothing(before: Cluster, after: Cluster, matrix: Matrix, moved: set[str]) -> bool:
    """Whether the moved pods keep their bounds afterwards, and the others those that they kept before."""
    return all(
        keeps(after, matrix, pod)
        for uid, pod in after.pods.items()
        if pod.node and (uid in moved or keeps(before, matrix, before.pods[uid]))
    )
