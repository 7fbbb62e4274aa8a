"""Plans the pods that keep images on backup nodes, so that a pod that falls there starts without pulling them.

Such a pod mounts images as volumes (KEP-4639) and holds no room: a pod's volumes cannot be changed, and a placeholder
that is made again for a new image would leave its room for a moment, or need it twice. So each of these is for one set
of images on one node, and another one takes its place when the set changes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from msgspec import Struct

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.kube.names import WARM_IMAGES_LABEL
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.placeholders import DeletePlaceholder, tolerations_on

SPARE_POD_SLOTS = 5
"""A node with fewer free ones has no pod that keeps images: that would take the slot of one that is needed."""


class KeepImages(Struct, frozen=True):
    """Create a pod that keeps these images on the node. tolerations: of all pods whose backup is there."""

    node: str
    images: tuple[str, ...]
    tolerations: tuple[Toleration, ...]

    @property
    def key(self) -> str:
        """Of this set on this node: a label's value, and part of a name."""
        return blake2b("\n".join((self.node, *self.images)).encode(), digest_size=16).hexdigest()


WarmImagesAction = KeepImages | DeletePlaceholder


def image_keepers(cluster: Cluster) -> Iterator[ClusterPod]:
    """The pods that keep images, without those that are being deleted."""
    return (pod for pod in cluster.pods.values() if WARM_IMAGES_LABEL in pod.labels and not pod.terminating)


def plan_warm_images(cluster: Cluster, plan: BackupPlan, most: int) -> list[WarmImagesAction]:
    """What to do so that every backup node keeps the images of the pods that would go there.

    most: images a node, those of pods of the highest priority first; 0: none, and the pods that keep some go.
    """
    desired = {each.key: each for each in _desired(cluster, plan, most)}
    keepers = list(image_keepers(cluster))
    outdated = [
        DeletePlaceholder(pod.uid, pod.namespace, pod.name, "the backups on its node need other images, or none")
        for pod in keepers
        if pod.labels[WARM_IMAGES_LABEL] not in desired
    ]
    present = {pod.labels[WARM_IMAGES_LABEL] for pod in keepers}
    return [*(each for key, each in desired.items() if key not in present), *outdated]


def _desired(cluster: Cluster, plan: BackupPlan, most: int) -> Iterator[KeepImages]:
    if most == 0:
        return
    covered = defaultdict[str, list[ClusterPod]](list)
    for uid, backup in plan.backups.items():
        if uid in cluster.pods and backup.node in cluster.nodes:
            covered[backup.node].append(cluster.pods[uid])
    for node, pods in sorted(covered.items()):
        images = _most_needed(pods, most)
        if images and _spare_slots(cluster, node) >= SPARE_POD_SLOTS:
            yield KeepImages(node, images, tolerations_on(cluster, plan, node))


def _most_needed(pods: Iterable[ClusterPod], most: int) -> tuple[str, ...]:
    """Sorted, so that the same images are the same set."""
    priority = dict[str, int]()
    for pod in pods:
        for image in pod.images:
            priority[image] = max(pod.priority, priority.get(image, pod.priority))
    first = sorted(priority, key=lambda image: (-priority[image], image))[:most]
    return tuple(sorted(first))


def _spare_slots(cluster: Cluster, node: str) -> int:
    """Pod slots that are free, or are taken by a pod that keeps images."""
    keepers = sum(WARM_IMAGES_LABEL in pod.labels for pod in cluster.pods_on(node))
    return cluster.free(node).pods + keepers
