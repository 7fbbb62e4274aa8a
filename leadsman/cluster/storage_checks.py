"""What a pod's claims require of its node: a volume that reaches it, and a driver that can attach one more."""

from collections.abc import Callable, Hashable, Iterator

import numpy as np

from leadsman.cluster.checks import Candidate, Check, everywhere
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.node_columns import Ints, Mask
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.storage import Claim, Storage, StorageClass


def claims(candidate: Candidate) -> Iterator[Check]:
    """Each claim by itself: the plugins volumebinding, volumezone and volumerestrictions of
    pkg/scheduler/framework/plugins. Capacity that a driver publishes (CSIStorageCapacity) is not looked at."""
    for name in candidate.pod.claims:
        claim = candidate.cluster.storage.claims.get((candidate.pod.namespace, name))
        if claim is None:
            yield everywhere(candidate, f"PersistentVolumeClaim {name} does not exist")
        elif claim.terminating:
            yield everywhere(candidate, f"PersistentVolumeClaim {name} is being deleted")
        elif claim.single_pod and _is_used(candidate, name):
            yield everywhere(candidate, f"PersistentVolumeClaim {name} is ReadWriteOncePod and another pod uses it")
        elif claim.volume:
            yield _bound(candidate, claim)
        else:
            yield _unbound(candidate, claim)


def _is_used(candidate: Candidate, claim: str) -> bool:
    namespace = candidate.pod.namespace
    users = (pod for pod in candidate.cluster.pods.values() if claim in pod.claims and pod.namespace == namespace)
    return any(pod.node for pod in users)


def _bound(candidate: Candidate, claim: Claim) -> Check:
    volume = candidate.cluster.storage.volumes.get(claim.volume)
    if volume is None:
        return everywhere(candidate, f"volume {claim.volume} of PersistentVolumeClaim {claim.name} does not exist")
    reached = _nodes(candidate, ("reach", volume.node_affinity, volume.zones), volume.reaches)
    return Check(~reached, f"volume {claim.volume} of PersistentVolumeClaim {claim.name} does not reach the node")


def _unbound(candidate: Candidate, claim: Claim) -> Check:
    storage_class = candidate.cluster.storage.classes.get(claim.storage_class, StorageClass(claim.storage_class))
    if not storage_class.waits_for_consumer:
        return everywhere(candidate, f"PersistentVolumeClaim {claim.name} is not bound to a volume")
    served = _nodes(candidate, ("provision", storage_class), storage_class.provisions)
    for volume in candidate.cluster.storage.volumes.values():
        if volume.serves(claim):
            served = served | _nodes(candidate, ("reach", volume.node_affinity, volume.zones), volume.reaches)
    return Check(~served, f"PersistentVolumeClaim {claim.name} can have no volume that reaches the node")


def _nodes(candidate: Candidate, key: Hashable, reaches: Callable[[ClusterNode], bool]) -> Mask:
    return candidate.columns.of_nodes(key, reaches, absent=False)


def attach_limits(candidate: Candidate) -> Iterator[Check]:
    """pkg/scheduler/framework/plugins/nodevolumelimits/csi.go: volumes of one handle are attached once."""
    storage, columns = candidate.cluster.storage, candidate.columns
    needed = set(_attachments(candidate.pod, storage))
    for driver in sorted({driver for driver, _ in needed}):
        limits = _limits(candidate, driver)
        refused = np.zeros(len(columns.names), np.bool_)
        for position in np.flatnonzero(limits >= 0):
            there = candidate.cluster.pods_on(columns.names[position])
            attached = {each for pod in there for each in _attachments(pod, storage) if each[0] == driver}
            adding = {each for each in needed if each[0] == driver} - attached
            refused[position] = bool(adding) and len(attached | adding) > limits[position]
        yield Check(refused, f"the node can attach no more volumes of {driver}")


def _limits(candidate: Candidate, driver: str) -> Ints:
    """How many volumes of the driver each node can attach; -1: any number."""
    return candidate.columns.of_nodes(("limit", driver), lambda node: node.attach_limits.get(driver, -1), absent=-1)


def _attachments(pod: ClusterPod, storage: Storage) -> Iterator[tuple[str, str]]:
    """Driver and handle of each volume that the pod has or will have attached."""
    for name in pod.claims:
        claim = storage.claims.get((pod.namespace, name))
        if claim is None:
            continue
        volume = storage.volumes.get(claim.volume)
        if volume is not None and volume.driver:
            yield volume.driver, volume.handle
        elif not claim.volume and claim.storage_class in storage.classes:
            yield storage.classes[claim.storage_class].provisioner, f"{pod.namespace}/{name}"
