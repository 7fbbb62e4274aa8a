"""Whether the pods that fall together can all land on their backups, when each counts on where the others are."""

from collections.abc import Sequence

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import refusals


def counts_on_others(pod: ClusterPod) -> bool:
    """Whether pods that land later, or elsewhere, may change where this one may go.

    Anti-affinity and host ports are the same seen from both pods, so the one that is placed second has checked them.
    """
    return bool(pod.constraints.affinity or pod.constraints.spread)


def stuck_pods(after: Cluster, landing: Sequence[tuple[ClusterPod, str]]) -> dict[str, str]:
    """UID → why kube-scheduler would refuse it its backup, of the pods that may never get there.

    after: the cluster after the failure, with every covered pod on its backup.
    landing: the pods with a backup that count on others.

    Nobody knows in which order they come, so each must find its place as the last one. And none may wait for one that
    waits for it: kube-scheduler tries each again when another one has landed.
    """
    as_last = {pod.uid: refusals(after.without_pod(pod.uid), pod, node) for pod, node in landing}
    if late := {uid: found[0] for uid, found in as_last.items() if found}:
        return late
    for pod, _ in landing:
        after = after.without_pod(pod.uid)
    waiting, reasons = list(landing), dict[str, str]()
    while waiting:
        refused = list[tuple[ClusterPod, str]]()
        for pod, node in waiting:
            if found := refusals(after, pod, node):
                reasons[pod.uid] = found[0]
                refused.append((pod, node))
            else:
                after = after.with_pod(pod, node)
        if len(refused) == len(waiting):
            return {pod.uid: reasons[pod.uid] for pod, _ in refused}
        waiting = refused
    return {}
