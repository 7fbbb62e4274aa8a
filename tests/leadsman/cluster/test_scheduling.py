"""Each requirement of kube-scheduler by itself, on the smallest cluster that shows it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.constraints import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PodConstraints,
    Requirement,
    Taint,
    Toleration,
    TopologySpread,
)
from leadsman.cluster.model import (
    NO_PROVISIONER,
    UNBOUND,
    Claim,
    ClusterNode,
    ClusterPod,
    Quota,
    QuotaScope,
    Storage,
    StorageClass,
    Volume,
    cluster_of,
)
from leadsman.cluster.quotas import quota_refusals
from leadsman.cluster.resources import ContainerRequest, Resources, pod_requests
from leadsman.cluster.scheduling import Feasibility
from tests.leadsman.planning.moves.movable_pods import of_app

ROOM = Resources(1000, 1000, 10)


def node(name: str, *, allocatable: Resources = ROOM, **more: Any) -> ClusterNode:
    """`node("a", zone="z1")`: a node with room for ten pods, with its name as label `host`, and those labels."""
    fields = {key: more.pop(key) for key in set(more) & set(ClusterNode.__struct_fields__)}
    return ClusterNode(name, labels={"host": name, **more}, allocatable=allocatable, **fields)


def pod(uid: str, on: str = UNBOUND, *, app: str = "web", **more: Any) -> ClusterPod:
    """`pod("p", "a", app="db")`: a pod of app db on node a, with further fields by name."""
    return ClusterPod(uid, "default", uid, on, labels={"app": app}, **more)


def near(key: str, name: str) -> PodAffinityTerm:
    return PodAffinityTerm(key, of_app(name), ("default",))


def test_every_reason_is_given() -> None:
    full = node("a", unschedulable=True, allocatable=Resources(100, 100, 1))
    cluster = cluster_of([full], [pod("other", "a", requests=Resources(90, 0, 1))])
    assert Feasibility(cluster, pod("p", requests=Resources(50, 0, 1))).refusals("a") == (
        "the node is cordoned",
        "the pod requests 50m cpu, of which the node has 10m cpu free",
        "the pod requests 1 pods, of which the node has 0 pods free",
    )


def affine(operator: Operator, *values: str) -> PodConstraints:
    return PodConstraints(node_affinity=(NodeSelectorTerm((Requirement("disk", operator, values),)),))


def tolerating(*tolerations: Toleration) -> PodConstraints:
    return PodConstraints(tolerations=tolerations)


def on_port(*port: Any, **more: Any) -> PodConstraints:
    return PodConstraints(host_ports=(HostPort(*port, **more),))


DB_ANTI_AFFINITY = PodConstraints(anti_affinity=(near("zone", "db"),))


@pytest.mark.parametrize(
    ("wants", "nodes"),
    [
        (PodConstraints(), "acd"),
        (tolerating(Toleration("k", "Equal", "v")), "abcd"),
        (tolerating(Toleration("k", "Equal", "w"), Toleration("k", "Equal", "v", "NoExecute")), "acd"),
        (tolerating(Toleration("", "Exists")), "abcd"),
        (affine(Operator.IN, "ssd", "nvme"), "a"),
        (affine(Operator.NOT_IN, "ssd"), "cd"),
        (affine(Operator.EXISTS), "ac"),
        (affine(Operator.DOES_NOT_EXIST), "d"),
        (on_port(80), "cd"),
        (on_port(80, ip="10.0.0.2"), "acd"),
        (on_port(80, "UDP"), "acd"),
        (DB_ANTI_AFFINITY, "cd"),
        (PodConstraints(affinity=(near("zone", "db"),)), "a"),
        # The first pod of a group goes where the label is.
        (PodConstraints(affinity=(near("zone", "web"),)), "ac"),
        (PodConstraints(affinity=(near("zone", "cache"),)), ""),
    ],
)
def test_each_requirement(wants: PodConstraints, nodes: str) -> None:
    """A pod of app db with port 80 of one address is on a; b is tainted, and d is in no zone and has no disk."""
    there = [node("a", zone="1", disk="ssd"), node("b", zone="1", disk="ssd", taints=(Taint("k", "v"),))]
    there += [node("c", zone="2", disk="hdd"), node("d", taints=(Taint("k", "v", "PreferNoSchedule"),))]
    cluster = cluster_of(there, [pod("db", "a", app="db", constraints=on_port(80, ip="10.0.0.1"))])
    assert "".join(Feasibility(cluster, pod("p", constraints=wants)).nodes) == nodes


def test_pods_that_are_there_keep_others_away() -> None:
    there = [node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")]
    cluster = cluster_of(there, [pod("web", "a", constraints=DB_ANTI_AFFINITY)])
    assert Feasibility(cluster, pod("p", app="db")).nodes == ("c", "d")


SPREAD = TopologySpread("zone", 1, of_app("web"))


@pytest.mark.parametrize(
    ("constraint", "nodes"),
    [
        (SPREAD, "c"),
        (replace(SPREAD, max_skew=2), "abc"),
        # Fewer domains than asked for: the least populated one counts as empty.
        (replace(SPREAD, min_domains=2), "c"),
        (replace(SPREAD, min_domains=3), "c"),
        (replace(SPREAD, selector=None), "abc"),
    ],
)
def test_topology_spread(constraint: TopologySpread, nodes: str) -> None:
    """Zone 1 has one pod, zone 2 none, and node d is in no zone."""
    cluster = cluster_of([node("a", zone="1"), node("b", zone="1"), node("c", zone="2"), node("d")], [pod("w", "a")])
    spread = PodConstraints(spread=(constraint,))
    assert "".join(Feasibility(cluster, pod("p", constraints=spread)).nodes) == nodes


def test_domains_that_the_pod_cannot_enter_count_only_by_policy() -> None:
    """Zone 2 is empty, so it holds the pod back from zone 1, unless the policy leaves zone 2 out."""
    tainted = node("b", zone="2", taints=(Taint("k"),))
    cluster = cluster_of([node("a", zone="1", disk="ssd"), tainted], [pod("w", "a")])
    honoring = replace(SPREAD, honor_taints=True)
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(SPREAD,)))).nodes == ()
    assert Feasibility(cluster, pod("p", constraints=PodConstraints(spread=(honoring,)))).nodes == ("a",)
    selecting = PodConstraints(node_selector=(("disk", "ssd"),), spread=(SPREAD,))
    assert Feasibility(cluster, pod("p", constraints=selecting)).nodes == ("a",)


def test_a_bound_pod_is_judged_as_if_it_were_off_its_node() -> None:
    away = PodConstraints(anti_affinity=(near("host", "web"),), host_ports=(HostPort(80),))
    bound = pod("p", "a", requests=Resources(900, 0, 1), constraints=away)
    assert Feasibility(cluster_of([node("a")], [bound]), bound).refusals("a") == ()


def test_a_gated_pod_goes_nowhere_and_labels_that_were_cut_match_nothing() -> None:
    cluster = cluster_of([node("a", labels_cut=1), node("b")], [])
    assert Feasibility(cluster, pod("p")).nodes == ("b",)
    assert Feasibility(cluster, pod("p", labels_cut=1)).nodes == ()
    assert Feasibility(cluster, pod("p", gated=True)).nodes == ()


# Amounts of resources, and a pod's request as kube-scheduler counts it.

GPU = "example.com/gpu"

small = st.integers(-3, 3)
amounts = st.builds(
    lambda cpu, memory, pods, gpu: Resources(cpu, memory, pods, {GPU: gpu} if gpu else {}), small, small, small, small
)


def cpu(millis, **more):
    return ContainerRequest(Resources(millis), **more)


def test_a_resource_list_is_read_in_millis_bytes_and_whole_units() -> None:
    listed = {"cpu": "1500m", "memory": "2Gi", "pods": "110", GPU: "2", "ephemeral-storage": "1k", "hugepages-2Mi": "0"}
    assert Resources.of(listed) == Resources(1500, 2 << 30, 110, {GPU: 2, "ephemeral-storage": 1000})


@given(amounts, amounts)
def test_subtraction_undoes_addition(one: Resources, other: Resources) -> None:
    assert one + other - other == one
    assert one + other == other + one


@given(amounts, amounts)
def test_it_fits_exactly_when_nothing_falls_short(request: Resources, free: Resources) -> None:
    assert request.fits(free) == (not request.shortfall(free))


@pytest.mark.parametrize(
    ("containers", "init_containers", "millis"),
    [
        ([cpu(100), cpu(200)], [], 300),
        ([cpu(100)], [cpu(500), cpu(400)], 500),
        ([cpu(100)], [cpu(50, restartable=True)], 150),
        # KEP-753: an init container runs beside the sidecars that were started before it, not after it.
        ([cpu(100)], [cpu(50, restartable=True), cpu(300)], 350),
        ([cpu(100)], [cpu(300), cpu(50, restartable=True)], 300),
        ([cpu(100)], [cpu(50, restartable=True), cpu(10), cpu(70, restartable=True)], 220),
    ],
)
def test_containers_add_up_and_init_containers_run_before_them(containers, init_containers, millis) -> None:
    assert pod_requests(containers, init_containers) == Resources(millis, pods=1)


def test_while_a_resize_is_under_way_the_larger_amount_counts() -> None:
    shrinking = ContainerRequest(Resources(100, 50), allocated=Resources(300, 20))
    assert pod_requests([shrinking]) == Resources(300, 50, 1)


def test_what_is_requested_for_the_pod_replaces_its_containers_and_overhead_is_added() -> None:
    asked = pod_requests([ContainerRequest(Resources(100, 50, extended={GPU: 1}))], (), Resources(10), {"cpu": 400})
    assert asked == Resources(410, 50, 1, {GPU: 1})


# Whether a namespace's quotas admit one more pod.

REQUESTS = Resources(100, 50, 1, {"example.com/gpu": 1})


def refused(pod, quota):
    return quota_refusals(cluster_of([], [], quotas=[quota]), pod)


@pytest.mark.parametrize(
    ("hard", "used", "said"),
    [
        ({"pods": 2}, {"pods": 1}, ""),
        ({"pods": 2}, {"pods": 2}, "pods to 2: 2 is used and the pod adds 1"),
        ({"requests.cpu": 150}, {}, ""),
        ({"requests.cpu": 150}, {"requests.cpu": 60}, "requests.cpu to 150: 60 is used and the pod adds 100"),
        ({f"requests.{GPU}": 0}, {}, f"requests.{GPU} to 0: 0 is used and the pod adds 1"),
        ({"requests.ephemeral-storage": 0, "services": 0}, {}, ""),
        ({"limits.cpu": 1000}, {}, "limits.cpu, of which the pod states none in its limits"),
    ],
)
def test_what_a_quota_refuses(hard, used, said) -> None:
    found = refused(pod("p", requests=REQUESTS), Quota("default", "q", hard, used))
    assert found == ((f"quota q limits {said}",) if said else ())


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        (QuotaScope("NotTerminating"), True),
        (QuotaScope("Terminating"), False),
        (QuotaScope("NotBestEffort"), True),
        (QuotaScope("BestEffort"), False),
        (QuotaScope("PriorityClass", "In", ("low", "high")), True),
        (QuotaScope("PriorityClass", "NotIn", ("low",)), False),
        (QuotaScope("PriorityClass", "Exists"), True),
        (QuotaScope("PriorityClass", "DoesNotExist"), False),
        (QuotaScope("CrossNamespacePodAffinity"), False),
    ],
)
def test_a_scope_says_which_pods_count(scope: QuotaScope, counts: bool) -> None:
    quota = Quota("default", "q", {"pods": 0}, scopes=(scope,))
    assert bool(refused(pod("p", requests=REQUESTS, priority_class="low"), quota)) == counts


# Where a pod's claims let it go.

ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
BOUND = Claim("default", "data", "v", "late")
LATE = StorageClass("late", waits_for_consumer=True, provisioner=DRIVER)


def in_rack(*racks: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement("rack", Operator.IN, racks),)),)


def disk(kind: str) -> LabelSelector:
    return LabelSelector((Requirement("disk", Operator.IN, (kind,)),))


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
def test_a_bound_volume_is_reached_from_some_nodes(volume: Volume, nodes: str) -> None:
    """Node c is in no zone: what a volume says of zones means nothing to it."""
    x, y = dict[str, Any]({ZONE: "x"}), dict[str, Any]({ZONE: "y"})
    there = [node("a", rack="1", **x), node("b", rack="2", **y), node("c")]
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
        (Claim("default", "data", "", "late", mode="Block"), StorageClass("late", True, NO_PROVISIONER), ""),
        (Claim("default", "data", "", "late", selector=disk("slow")), StorageClass("late", True, NO_PROVISIONER), "a"),
        (Claim("default", "data", "", "late", selector=disk("fast")), StorageClass("late", True, NO_PROVISIONER), ""),
    ],
)
def test_a_claim_without_a_volume(claim, by_class, nodes) -> None:
    modes = ("ReadWriteOnce",)
    free = Volume("free", "late", modes, 10, None, in_rack("1"), labels={"disk": "slow"})
    taken = Volume("taken", "late", modes, 10, ("default", "other"), in_rack("2"))
    going = Volume("going", "late", modes, 10, None, in_rack("2"), terminating=True)
    known = storage(claim, free, taken, going, by_class=by_class)
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
def test_claims_that_go_nowhere(known: Storage, reason: str) -> None:
    cluster = cluster_of([node("a")], [pod("user", "a", claims=("data",))], storage=known)
    assert Feasibility(cluster, pod("p", claims=("data",))).refusals("a") == (reason,)


def test_a_driver_attaches_so_many_volumes_to_a_node_each_counted_once() -> None:
    claims = {("default", name): Claim("default", name, name) for name in ("one", "two", "same")}
    handles = {"one": "h1", "two": "h2", "same": "h1"}
    volumes = {name: Volume(name, driver=DRIVER, handle=handle) for name, handle in handles.items()}
    there = [node("a", attach_limits={DRIVER: 1}), node("b")]
    cluster = cluster_of(there, [pod("user", "a", claims=("one",))], storage=Storage(claims, volumes))
    two, same = (Feasibility(cluster, pod("p", claims=(name,))) for name in ("two", "same"))
    assert two.refusals("a") == (f"the node can attach no more volumes of {DRIVER}",)
    assert two.refusals("b") == same.refusals("a") == ()


def test_pods_that_request_more_than_any_node_has_fill_theirs_and_end_no_count() -> None:
    most = Resources.of({"cpu": "1e30", "memory": "9E", "example.com/foo": "100E"})
    cluster = cluster_of([node("a"), node("b")], [pod("one", "a", requests=most), pod("two", "a", requests=most)])
    assert Feasibility(cluster, pod("p", requests=Resources(1, 1, 1))).nodes == ("b",)
