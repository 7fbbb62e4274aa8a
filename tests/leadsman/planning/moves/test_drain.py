"""Nodes that are emptied ahead of maintenance, and what keeps them from being empty."""

from random import Random

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints, TopologySpread
from leadsman.cluster.model import Cluster, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import SelfHealing
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.backups.reserve import HOSTNAME_LABEL
from leadsman.planning.moves.drain import DrainEnd, DrainPlan, plan_drain
from leadsman.planning.situation import Situation
from leadsman.published.moves import PlanOrigin
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, inputs_of, random_case
from tests.leadsman.planning.moves.movable_pods import GIB, node, of_app, pods_of

MATRIX = {
    a: dict(zip("abcd", row, strict=True))
    for a, row in zip("abcd", ((0, 2, 4, 40), (2, 0, 3, 40), (4, 3, 0, 40), (40, 40, 40, 0)), strict=True)
}


pod = pods_of(2)


def drained(cluster: Cluster, *nodes: str, backups: BackupSettings | None = None) -> DrainPlan:
    return plan_drain(Situation(cluster, inputs_of(cluster, MATRIX)), nodes, backups, 1000.0)


def test_every_pod_leaves_for_a_node_that_keeps_its_bounds() -> None:
    pods = [pod("near", "a", labels={"delay_b": "5"}), pod("any", "a")]
    plan = drained(cluster_of(map(node, "abcd"), pods), "a").plan
    assert plan.origin is PlanOrigin.DRAIN
    assert {move.name: move.from_node for move in plan.moves} == {"near": "a", "any": "a"}
    assert {move.to_node for move in plan.moves if move.name == "near"} <= {"b", "c"}
    assert not plan.left_out
    assert sum(move.gain for move in plan.moves) == pytest.approx(10.0)


def test_pods_whose_spread_leaves_out_tainted_nodes_leave_as_a_cordon_is_a_taint() -> None:
    spread = PodConstraints(spread=(TopologySpread(HOSTNAME_LABEL, 1, of_app("web"), honor_taints=True),))
    pods = [pod(f"on-{name}", name, labels={"app": "web"}, constraints=spread) for name in "abc"]
    nodes = [replace(each, labels={HOSTNAME_LABEL: each.name}) for each in map(node, "abc")]
    assert [move.name for move in drained(cluster_of(nodes, pods), "c").plan.moves] == ["on-c"]


def test_pods_of_daemon_sets_and_static_pods_stay_and_keep_no_node_from_being_empty() -> None:
    pods = [pod("proxy", "a", owner_kind="DaemonSet"), pod("static", "a", owner_kind="Node")]
    pods.append(pod("bare", "a", owner_kind="", owner_uid="", workload="pod/bare"))
    result = drained(cluster_of(map(node, "ab"), pods), "a")
    assert {each.name for each in result.staying} == {"proxy", "static"}
    assert {each.name: each.why for each in result.plan.left_out} == {
        "bare": "it has no controller that would make it again"
    }


def test_no_pod_leaves_for_a_node_that_self_healing_refuses() -> None:
    cluster = cluster_of([node("a"), node("b"), node("c", 9)], [pod("any", "a")])
    inputs = replace(inputs_of(cluster, MATRIX), self_healing=SelfHealing(refused={"c": "it is suspect"}))
    assert [move.to_node for move in plan_drain(Situation(cluster, inputs), ["a"], None, None).plan.moves] == ["b"]


def test_a_pod_elsewhere_that_is_bound_to_the_node_is_named() -> None:
    cluster = cluster_of(map(node, "abc"), [pod("tied", "b", labels={"delay_a": "5"})])
    [tied] = drained(cluster, "a").bound_to
    assert (tied.name, tied.node, tied.why) == ("tied", "b", "it has a delay bound to node a")


def test_a_pod_elsewhere_whose_backup_was_on_the_node_and_has_no_other_is_named() -> None:
    cluster = cluster_of(map(node, "abd"), [pod("tied", "b", labels={"delay_b": "5"})])
    result = drained(cluster, "a", backups=BackupSettings())
    assert [each.name for each in result.losing_backups] == ["tied"]
    assert "delay to b over 5 ms" in result.losing_backups[0].why


def test_a_pod_that_has_a_backup_again_after_the_moves_does_not_lose_it() -> None:
    """While w is on a, no other node than a and b is within the bound to it; once it is on c, c is."""
    pods = [pod("w", "a"), pod("tied", "b", labels={"delay_w": "3.5"})]
    result = drained(cluster_of([node("a"), node("b", 3), node("c")], pods), "a", backups=BackupSettings())
    assert ([move.to_node for move in result.plan.moves], result.losing_backups) == (["c"], ())


def brute_force(cluster: Cluster, drained: str) -> bool:
    """Whether the node can be emptied, by sizes alone: every place of every pod, with one other pod anywhere else."""
    free = {name: cluster.free(name).memory_bytes for name in cluster.nodes if name != drained}
    leaving = [each.requests.memory_bytes for each in cluster.pods_on(drained)]

    def fits(free: dict[str, int], sizes: list[int]) -> bool:
        return not sizes or any(
            fits({**free, name: room - sizes[0]}, sizes[1:]) for name, room in free.items() if room >= sizes[0]
        )

    asides = [
        {**free, name: free[name] + size, to: free[to] - size}
        for name in free
        for size in (each.requests.memory_bytes for each in cluster.pods_on(name))
        for to in free
        if to != name and free[to] >= size
    ]
    return any(fits(each, leaving) for each in (free, *asides))


def full_cluster(seed: int) -> Cluster:
    """Three to five nodes with little room, the first of which is to be empty."""
    rng = Random(seed)
    nodes = [node(name, rng.randint(6, 10)) for name in "abcde"[: rng.randint(3, 5)]]
    pods: list[ClusterPod] = []
    for each in nodes:
        room = each.allocatable.memory_bytes // GIB
        while room > 0 and len(pods) < 14:
            size = rng.randint(1, 5)
            if size > room or (each.name != "a" and rng.random() < 0.12):
                break
            room -= size
            pods.append(pod(f"p{len(pods)}", each.name, size))
    return cluster_of(nodes, pods)


@pytest.mark.parametrize("seed", range(80))
def test_a_small_node_is_emptied_whenever_that_can_be_done(seed: int) -> None:
    cluster = full_cluster(seed)
    result = drained(cluster, "a")
    assert result.end is (DrainEnd.EMPTY if brute_force(cluster, "a") else DrainEnd.IMPOSSIBLE)
    for move in result.plan.moves:
        cluster = cluster.with_pod(cluster.pods[move.pod_uid], move.to_node)
    assert bool(cluster.pods_on("a")) is bool(result.plan.left_out) is (result.end is DrainEnd.IMPOSSIBLE)


def test_a_node_that_lacks_what_a_pod_does_not_ask_for_takes_it_when_everything_is_tried() -> None:
    """Free 6 and 5 GiB, as below. `five` asks for no CPU, and goes to c, whose CPU is overcommitted."""
    pods = [replace(pod("five", "a"), requests=Resources(0, 5 * GIB, 1)), pod("three", "a", 3), pod("third", "a", 3)]
    pods.append(replace(pod("busy", "c"), requests=Resources(9000, GIB, 1)))
    assert drained(cluster_of([node("a", 11), node("b", 6), node("c", 6)], pods), "a").end is DrainEnd.EMPTY


def test_what_only_the_backups_forbid_is_not_called_impossible() -> None:
    """`tied` may run on a and b alone: on b it would have no backup."""
    cluster = cluster_of(map(node, "abd"), [pod("tied", "a", labels={"delay_b": "5"})])
    assert drained(cluster, "a", backups=BackupSettings()).end is DrainEnd.NONE_KEEPS_BACKUPS
    assert drained(cluster, "a").end is DrainEnd.EMPTY


def test_what_is_not_found_in_the_time_is_not_called_impossible() -> None:
    """Free 6 and 5 GiB, pods of 5, 3 and 3: the roomiest node first strands one."""
    pods = [pod("five", "a", 5), pod("three", "a", 3), pod("third", "a", 3)]
    cluster = cluster_of([node("a", 11), node("b", 6), node("c", 5)], pods)
    situation = Situation(cluster, inputs_of(cluster, MATRIX))
    assert plan_drain(situation, ["a"], None, None, has_time=lambda: False).end is DrainEnd.OUT_OF_TIME


def test_a_member_of_an_etcd_is_left_with_what_to_do() -> None:
    ours = {"app.kubernetes.io/part-of": "leadsman", "app.kubernetes.io/component": "etcd"}
    pods = [
        pod("leadsman-etcd-1", "a", labels=ours, owner_kind="StatefulSet", local_volumes=True),
        pod("etcd-a", "a", labels={"component": "etcd"}, owner_kind="Node"),
    ]
    result = drained(cluster_of(map(node, "ab"), pods), "a")
    assert "kubectl -n shop delete pod leadsman-etcd-1" in result.plan.left_out[0].why
    assert "etcdctl endpoint health" in result.staying[0].why


@pytest.mark.parametrize("seed", range(60))
def test_after_all_moves_what_is_left_on_the_node_is_exactly_what_was_left_out(seed: int) -> None:
    cluster, inputs = random_case(seed)
    node = sorted(cluster.nodes)[seed % len(cluster.nodes)]
    settings, asked = BackupSettings(rack_label=RACK_LABEL), iter(range(50))
    result = plan_drain(Situation(cluster, inputs), [node], settings, None, has_time=lambda: next(asked, 50) < 50)
    after = cluster
    for move in result.plan.moves:
        assert move.to_node != node
        after = after.with_pod(after.pods[move.pod_uid], move.to_node)
    left = {each.name for each in (*result.plan.left_out, *result.staying)}
    assert {each.name for each in after.pods_on(node)} == left
