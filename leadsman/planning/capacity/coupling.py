"""Which templates are not described by numbers alone, because where one pod is changes where another may be."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.delay.bounds import TargetName, valid_bounds
from leadsman.decision.model import PodInfo
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.planning.backups.model import BackupPlan


def cautions(
    pod: ClusterPod, wants_backup: bool, templates: Sequence[ClusterPod], cluster: Cluster, plan: BackupPlan
) -> tuple[str, ...]:
    """Why the pods of this template must be judged one by one; () when they need not."""
    return tuple(_cautions(pod, wants_backup, templates, cluster, plan))


def _cautions(
    pod: ClusterPod, wants_backup: bool, templates: Sequence[ClusterPod], cluster: Cluster, plan: BackupPlan
) -> Iterator[str]:
    constraints = pod.constraints
    domains = len(constraints.spread) + sum(
        term.topology_key != "kubernetes.io/hostname" for term in constraints.anti_affinity
    )
    if domains > 1 or (domains and wants_backup):
        yield "it is spread over domains in several ways, or with backups"
    for judged, what in (
        (constraints.affinity, "it has a required pod affinity"),
        (pod.claims, "it has claims"),
        (pod.devices, "it asks for devices"),
    ):
        if judged:
            yield what
    others = [each for each in templates if each is not pod]
    if any(_looks_at(pod, other, cluster) or _looks_at(other, pod, cluster) for other in others):
        yield "it and another template have a required affinity, anti-affinity or spread for each other"
    covered = [cluster.pods[uid] for uid in plan.backups]
    if any(_looks_at(each, pod, cluster) or (wants_backup and _looks_at(pod, each, cluster)) for each in covered):
        yield "it and a pod with a backup have a required affinity, anti-affinity or spread for each other"
    if any(_is_bound_to(each, other) for each in templates for other in templates):
        yield "a template is bound to the workload of a template"
    if any(_is_bound_to(each, pod) for each in covered):
        yield "a pod with a backup is bound to its workload"


def _looks_at(pod: ClusterPod, other: ClusterPod, cluster: Cluster) -> bool:
    """Whether a requirement of `pod` counts pods like `other`, apart from what the problem counts itself."""
    labels = cluster.namespaces.get(other.namespace, {"kubernetes.io/metadata.name": other.namespace})
    terms = (*pod.constraints.affinity, *pod.constraints.anti_affinity)
    if any(term.matches(other.namespace, other.labels, labels) for term in terms):
        return True
    selectors = [each.selector for each in pod.constraints.spread if each.selector is not None]
    return pod.namespace == other.namespace and any(each.matches(other.labels) for each in selectors)


def _is_bound_to(pod: ClusterPod, other: ClusterPod) -> bool:
    """Whether a bound of the pod names the workload of `other`."""
    own = other.workload.rpartition("/")[2]
    names = [TargetName.of(bound.reference) for bound in valid_bounds(PodInfo.of(pod))]
    return any(each.name == own and (each.namespace or pod.namespace) == other.namespace for each in names)


def without_coupling(pod: ClusterPod, templates: Sequence[ClusterPod], cluster: Cluster) -> ClusterPod:
    """The pod without what new pods could fulfil and none does yet: bounds to their workloads, and required affinities
    to pods of other templates. What is then refused stays refused, whatever is added."""
    others = [each for each in templates if each is not pod]
    if any(_asks_for(pod, other, cluster) for other in others):
        pod = replace(pod, constraints=replace(pod.constraints, affinity=()))
    if not any(_is_bound_to(pod, other) for other in templates):
        return pod
    new = {other.workload.rpartition("/")[2] for other in templates}
    labels = {key: value for key, value in pod.labels.items() if key.removeprefix(DELAY_LABEL_PREFIX) not in new}
    lines = pod.annotations.get(DELAY_ANNOTATION, "").splitlines()
    kept = [line for line in lines if TargetName.of(line.partition(":")[0].strip()).name not in new]
    return replace(pod, labels=labels, annotations={**pod.annotations, DELAY_ANNOTATION: "\n".join(kept)})


def _asks_for(pod: ClusterPod, other: ClusterPod, cluster: Cluster) -> bool:
    labels = cluster.namespaces.get(other.namespace, {"kubernetes.io/metadata.name": other.namespace})
    return any(term.matches(other.namespace, other.labels, labels) for term in pod.constraints.affinity)
