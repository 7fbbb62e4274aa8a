"""Where a pod's claims let it go."""

import pytest

from leadsman.cluster.model import cluster_of
from leadsman.cluster.scheduling import Feasibility, refusals
from leadsman.cluster.selectors import NodeSelectorTerm, Operator, Requirement
from leadsman.cluster.storage import NO_PROVISIONER, Claim, Storage, StorageClass, Volume
from tests.leadsman.cluster.conftest import MakeNode, MakePod

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
BOUND = Claim("default", "data", "v", "late")
LATE = StorageClass("late", waits_for_consumer=True, provisioner=DRIVER)


def in_rack(*racks: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement("rack", Operator.IN, racks),)),)


def storage(claim: Claim, *volumes: Volume, by_class: StorageClass = LATE) -> Storage:
    return Storage(
        {(claim.namespace, claim.name): claim}, {volume.name: volume for volume in volumes}, {by_class.name: by_class}
    )


@pytest.mark.parametrize(
    ("volume", "nodes"),
    [
        (Volume("v"), "abc"),
        (Volume("v", node_affinity=in_rack("1")), "a"),
        (Volume("v", zones=((ZONE, ("x",)),)), "ac"),
        (Volume("v", node_affinity=in_rack("1", "2"), zones=((ZONE, ("y",)),)), "b"),
    ],
)
def test_a_bound_volume_is_reached_from_some_nodes(node: MakeNode, pod: MakePod, volume: Volume, nodes: str) -> None:
    """Node c is in no zone: what a volume says of zones means nothing to it."""
    there = [node("a", rack="1", **{ZONE: "x"}), node("b", rack="2", **{ZONE: "y"}), node("c")]
    cluster = cluster_of(there, [], storage=storage(BOUND, volume))
    assert "".join(Feasibility(cluster, pod("p", claims=("data",))).nodes) == nodes


@pytest.mark.parametrize(
    ("claim", "by_class", "nodes"),
    [
        (Claim("default", "data", "", "now"), StorageClass("now"), ""),
        (Claim("default", "data", "", "late"), LATE, "ab"),
        (Claim("default", "data", "", "late", (), 50), StorageClass("late", True, DRIVER, in_rack("2")), "b"),
        # Made by hand: only where a free volume of the class is, large enough and of the access modes.
        (Claim("default", "data", "", "late", ("ReadWriteOnce",), 5), StorageClass("late", True, NO_PROVISIONER), "a"),
        (Claim("default", "data", "", "late", ("ReadWriteOnce",), 50), StorageClass("late", True, NO_PROVISIONER), ""),
    ],
)
def test_a_claim_without_a_volume(node: MakeNode, pod: MakePod, claim, by_class, nodes) -> None:
    modes = ("ReadWriteOnce",)
    free = Volume("free", "late", modes, 10, None, in_rack("1"))
    taken = Volume("taken", "late", modes, 10, ("default", "other"), in_rack("2"))
    known = storage(claim, free, taken, by_class=by_class)
    cluster = cluster_of([node("a", rack="1"), node("b", rack="2")], [], storage=known)
    assert "".join(Feasibility(cluster, pod("p", claims=("data",))).nodes) == nodes


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (Storage(), "PersistentVolumeClaim data does not exist"),
        (storage(Claim("default", "data", "v", terminating=True)), "PersistentVolumeClaim data is being deleted"),
        (storage(BOUND), "volume v of PersistentVolumeClaim data does not exist"),
        (
            storage(Claim("default", "data", "v", access_modes=("ReadWriteOncePod",)), Volume("v")),
            "PersistentVolumeClaim data is ReadWriteOncePod and another pod uses it",
        ),
    ],
)
def test_claims_that_go_nowhere(node: MakeNode, pod: MakePod, known: Storage, reason: str) -> None:
    cluster = cluster_of([node("a")], [pod("user", "a", claims=("data",))], storage=known)
    assert refusals(cluster, pod("p", claims=("data",)), "a") == (reason,)


def test_a_driver_attaches_so_many_volumes_to_a_node_each_counted_once(node: MakeNode, pod: MakePod) -> None:
    claims = {("default", name): Claim("default", name, name) for name in ("one", "two", "same")}
    handles = {"one": "h1", "two": "h2", "same": "h1"}
    volumes = {name: Volume(name, driver=DRIVER, handle=handle) for name, handle in handles.items()}
    there = [node("a", attach_limits={DRIVER: 1}), node("b")]
    cluster = cluster_of(there, [pod("user", "a", claims=("one",))], storage=Storage(claims, volumes))
    assert refusals(cluster, pod("p", claims=("two",)), "a") == (f"the node can attach no more volumes of {DRIVER}",)
    assert refusals(cluster, pod("p", claims=("same",)), "a") == ()
    assert refusals(cluster, pod("p", claims=("two",)), "b") == ()
