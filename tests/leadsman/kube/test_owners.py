import pytest

from leadsman.kube.objects import Owner, OwnerReference, pod_owner

TAG = OwnerReference("Tag", "t")
SET = OwnerReference("StatefulSet", "db", controller=True)


def node(name: str) -> OwnerReference:
    return OwnerReference("Node", name, controller=True)


@pytest.mark.parametrize(
    ("name", "references", "owner"),
    [
        ("db-0", [SET], Owner("StatefulSet", "db")),
        ("db-0", [TAG, SET], Owner("StatefulSet", "db")),
        ("alone", [], Owner("Pod", "alone")),
        ("alone", [TAG], Owner("Pod", "alone")),
    ],
)
def test_a_pod_belongs_to_its_controller_or_to_itself(
    name: str, references: list[OwnerReference], owner: Owner
) -> None:
    assert pod_owner(name, references) == owner


def test_a_static_pod_belongs_to_no_node_and_is_named_the_same_on_all() -> None:
    assert pod_owner("kube-proxy-edge-1", [node("edge-1")]) == Owner("Pod", "kube-proxy")
    assert pod_owner("kube-proxy-edge-2", [node("edge-2")]) == Owner("Pod", "kube-proxy")


def test_a_pod_that_its_node_controls_under_another_name_keeps_its_own() -> None:
    assert pod_owner("proxy", [node("edge-1")]) == Owner("Pod", "proxy")
