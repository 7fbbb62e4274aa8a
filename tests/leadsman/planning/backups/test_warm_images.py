"""Backup nodes keep the images of the pods that would go there, in pods that hold no room."""

from leadsman.cluster.constraints import PodConstraints, Toleration
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.model import Backup, BackupPlan, Uncovered
from leadsman.planning.backups.placeholders import DeletePlaceholder
from leadsman.planning.backups.warm_images import SPARE_POD_SLOTS, KeepImages, WarmImagesAction, plan_warm_images

NODES = ("edge-1", "edge-2")
TOLERATIONS = (Toleration("edge", "Exists"),)


def web(name: str, *images: str, priority: int = 0) -> ClusterPod:
    constraints = PodConstraints(tolerations=TOLERATIONS)
    return ClusterPod(name, "shop", name, "edge-1", priority=priority, images=images, constraints=constraints)


def keeper(action: WarmImagesAction) -> ClusterPod:
    """The pod that the action creates, bound."""
    assert isinstance(action, KeepImages)
    labels = {"leadsman.dev/warm-images": action.key}
    return ClusterPod(action.key, "leadsman-placeholders", f"images-{action.key}", action.node, labels=labels)


def cluster(*pods: ClusterPod, slots: int = 20) -> Cluster:
    return cluster_of([ClusterNode(name, allocatable=Resources(4000, 2**33, slots)) for name in NODES], pods)


def covered(*pods: ClusterPod) -> BackupPlan:
    return BackupPlan({pod.uid: Backup("edge-2", ()) for pod in pods})


def test_a_backup_node_keeps_each_image_of_the_pods_that_would_go_there_once() -> None:
    pods = web("web-1", "web:1", "proxy:1"), web("web-2", "web:1")
    assert plan_warm_images(cluster(*pods), covered(*pods), 5) == [
        KeepImages("edge-2", ("proxy:1", "web:1"), TOLERATIONS)
    ]


def test_images_of_the_highest_priority_come_first() -> None:
    pods = web("a", "a:1"), web("b", "b:1", priority=10), web("c", "c:1", priority=5)
    [action] = plan_warm_images(cluster(*pods), covered(*pods), 2)
    assert isinstance(action, KeepImages)
    assert action.images == ("b:1", "c:1")


def test_nothing_is_done_while_the_images_stay_and_another_pod_replaces_the_first_when_they_change() -> None:
    before, after = web("web-1", "web:1"), web("web-1", "web:2")
    old = keeper(plan_warm_images(cluster(before), covered(before), 5)[0])
    assert plan_warm_images(cluster(before, old), covered(before), 5) == []
    create, delete = plan_warm_images(cluster(after, old), covered(after), 5)
    assert create == KeepImages("edge-2", ("web:2",), TOLERATIONS)
    assert isinstance(delete, DeletePlaceholder)
    assert delete.uid == old.uid


def test_a_node_that_is_nobody_s_backup_keeps_nothing() -> None:
    pod = web("web-1", "web:1")
    old = keeper(plan_warm_images(cluster(pod), covered(pod), 5)[0])
    [delete] = plan_warm_images(cluster(pod, old), BackupPlan({pod.uid: Uncovered("no room")}), 5)
    assert isinstance(delete, DeletePlaceholder)


def test_switched_off_what_is_left_goes() -> None:
    pod = web("web-1", "web:1")
    old = keeper(plan_warm_images(cluster(pod), covered(pod), 5)[0])
    assert [type(each) for each in plan_warm_images(cluster(pod, old), covered(pod), 0)] == [DeletePlaceholder]


def test_a_node_that_runs_out_of_pod_slots_keeps_none_and_one_with_just_enough_stays_as_it_is() -> None:
    pod = web("web-1", "web:1")
    [action] = plan_warm_images(cluster(pod, slots=SPARE_POD_SLOTS), covered(pod), 5)
    old = keeper(action)
    assert plan_warm_images(cluster(pod, old, slots=SPARE_POD_SLOTS), covered(pod), 5) == []
    [delete] = plan_warm_images(cluster(pod, old, slots=SPARE_POD_SLOTS - 1), covered(pod), 5)
    assert isinstance(delete, DeletePlaceholder)
