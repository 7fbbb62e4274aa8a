import pytest

from agent.pods.incident_ledger import OTHER_TYPE, pod_type_of
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.objects import ControllerReferences, ObjectMeta, OwnerReference, Pod


def pod(name: str, kind: str, owner: str, **labels: str) -> Pod:
    return Pod(
        ObjectMeta(
            name,
            labels=BoundedLabels(labels),
            owner_references=ControllerReferences([OwnerReference(kind, owner, controller=True)]),
        )
    )


@pytest.mark.parametrize("node", ["edge-1", "edge-2"])
def test_a_static_pod_has_one_type_on_all_nodes_and_it_is_not_the_nodes_name(node: str) -> None:
    assert pod_type_of(pod(f"kube-proxy-{node}", "Node", node)) == "kube-proxy"


def test_a_pod_without_labels_has_its_controllers_name() -> None:
    assert pod_type_of(pod("db-0", "StatefulSet", "db")) == "db"


def test_a_pod_without_labels_and_controller_has_its_own_name() -> None:
    assert pod_type_of(Pod(ObjectMeta("alone"))) == "alone"


def test_a_name_that_no_key_can_hold_counts_as_other() -> None:
    assert pod_type_of(pod("p", "StatefulSet", "db", podtype="a/b")) == OTHER_TYPE
