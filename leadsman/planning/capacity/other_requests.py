"""The same pods with other requests: how many fit if requests followed a forecast of what pods use."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.planning.capacity.model import PodTemplate

Requests = Mapping[str, Mapping[str, int]]
"""Workload, as `shop/deployment/web` → cpu in millis, memory in bytes."""


def with_requests(
    cluster: Cluster, templates: Sequence[PodTemplate], requests: Requests
) -> tuple[Cluster, list[PodTemplate]]:
    """Both with these requests; what they leave out keeps its own."""
    changed = {uid: _changed(pod, requests) for uid, pod in cluster.pods.items() if _workload(pod) in requests}
    return cluster.changed(pods=changed), [replace(each, pod=_changed(each.pod, requests)) for each in templates]


def _changed(pod: ClusterPod, requests: Requests) -> ClusterPod:
    amounts = requests.get(_workload(pod), {})
    return replace(
        pod,
        requests=replace(
            pod.requests,
            cpu_millis=amounts.get("cpu", pod.requests.cpu_millis),
            memory_bytes=amounts.get("memory", pod.requests.memory_bytes),
        ),
    )


def _workload(pod: ClusterPod) -> str:
    return f"{pod.namespace}/{pod.workload}"
