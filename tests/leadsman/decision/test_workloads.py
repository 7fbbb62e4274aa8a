"""Where workloads run, by name, and whose pod a pod is."""

import pytest

from leadsman.decision.inputs import PlacedPod, WorkloadIndex
from leadsman.kube.objects import workload_name

WEB, CACHE = (PlacedPod("web-1", "edge-1"),), (PlacedPod("web-0", "edge-2"),)
PLACES = WorkloadIndex(
    {
        ("shop", "web"): {"deployment": WEB, "statefulset": CACHE},
        ("shop", "new"): {"deployment": ()},
        ("other", "web"): {"job": ()},
    },
    read_at=90.0,
)


def test_a_bare_name_finds_every_kind_in_its_namespace_only() -> None:
    assert PLACES.find("shop", "web") == {"deployment": WEB, "statefulset": CACHE}


def test_a_qualified_name_finds_its_kind_only() -> None:
    assert PLACES.find("shop", "statefulset/web") == {"statefulset": CACHE}
    assert PLACES.find("shop", "job/web") == {}


def test_a_workload_without_placed_pods_is_not_a_missing_one() -> None:
    assert (PLACES.find("shop", "new"), PLACES.find("shop", "gone")) == ({"deployment": ()}, {})


@pytest.mark.parametrize(
    ("kind", "name", "labels", "whose"),
    [
        ("ReplicaSet", "web-5d8f", {"pod-template-hash": "5d8f"}, "deployment/web"),
        ("ReplicaSet", "web-5d8f", {}, "replicaset/web-5d8f"),
        ("ReplicaSet", "web", {"pod-template-hash": "5d8f"}, "replicaset/web"),
        ("StatefulSet", "db", {"pod-template-hash": "x"}, "statefulset/db"),
        ("Job", "once", {}, "job/once"),
    ],
)
def test_a_pod_belongs_to_its_controller(kind: str, name: str, labels: dict[str, str], whose: str) -> None:
    assert workload_name(kind, name, labels) == whose
