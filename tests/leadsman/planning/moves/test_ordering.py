"""The order of moves: each prefix is safe by the code that judges placements and failures, and cycles are broken."""

import random
from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod, Quota, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.planning.backups.backup_plan import BackupSettings, FailureDomains, lost_pods
from leadsman.planning.moves.ordering import Ordering, Wish, order_moves
from leadsman.planning.moves.search import why_never_moved
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import PROTECTED, RACK_LABEL, Rtts, inputs_of, keeps, random_case
from tests.leadsman.planning.moves.movable_pods import node, pods_of

SETTINGS = BackupSettings(rack_label=RACK_LABEL)
SEEDS = range(120)


@cache
def random_order(seed: int) -> tuple[Cluster, Rtts, list[Wish], Ordering]:
    """Up to eight pods that are to go to random other nodes; no eviction of workload a is allowed in every third."""
    cluster, inputs = random_case(seed, nodes=6, pods=16, constrained=seed % 2 == 0)
    matrix = inputs.delay_views[0].rtt_ms  # type: ignore[attr-defined]
    cluster = cluster.changed(pods={uid: replace(pod, ready=True) for uid, pod in cluster.pods.items()})
    if seed % 3 == 0:
        cluster = replace(cluster, budgets={("shop", "protected"): PROTECTED})
    rng = random.Random(seed)
    chosen = rng.sample(sorted(cluster.pods), min(8, len(cluster.pods)))
    wishes = [Wish(uid, rng.choice((*cluster.nodes, "")), "a test") for uid in chosen]
    return cluster, matrix, wishes, order_moves(Situation(cluster, inputs_of(cluster, matrix)), wishes, SETTINGS)


def prefixes(cluster: Cluster, ordered: Ordering) -> Iterator[tuple[Cluster, Cluster, ClusterPod]]:
    """The cluster before and after each move, and the pod that moves."""
    for move in ordered.moves:
        pod = cluster.pods[move.pod_uid]
        assert pod.node == move.from_node
        after = cluster.with_pod(pod, move.to_node)
        yield cluster, after, pod
        cluster = after


@pytest.mark.parametrize("seed", SEEDS)
def test_every_prefix_keeps_bounds_capacity_with_reserves_budgets_and_backups(seed: int) -> None:
    cluster, matrix, _, ordered = random_order(seed)
    covered = ordered.backups[0].backups.keys()
    for number, (before, after, pod) in enumerate(prefixes(cluster, ordered)):
        node, plan = after.pods[pod.uid].node, ordered.backups[number + 1]
        assert not why_never_moved(pod)
        assert not any(budget.covers(pod) for budget in before.budgets.values())
        assert not Feasibility(before, pod).refusals(node)
        reserved_before = ordered.backups[number].reserves.get(node, Resources())
        assert pod.requests.fits(before.free(node) - reserved_before), "beside the room that is reserved then"
        assert keeps(after, matrix, after.pods[pod.uid])
        for each in before.pods.values():
            assert keeps(after, matrix, after.pods[each.uid]) or not keeps(before, matrix, each)
        assert plan.backups.keys() >= covered
        for reserving, reserve in plan.reserves.items():
            assert reserve.fits(after.free(reserving))
        inputs = inputs_of(after, matrix)
        domains = FailureDomains(after, inputs, RACK_LABEL)
        for domain in {domain for backup in plan.backups.values() for domain in backup.domains}:
            assert not lost_pods(Situation(after, inputs), domains.failure(domain), plan)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_wish_is_fulfilled_or_left_out_with_a_reason(seed: int) -> None:
    cluster, _, wishes, ordered = random_order(seed)
    at = {uid: pod.node for uid, pod in cluster.pods.items()} | {each.pod_uid: each.to_node for each in ordered.moves}
    left = {(each.namespace, each.name): each.why for each in ordered.left_out}
    for wish in wishes:
        pod = cluster.pods[wish.pod_uid]
        arrived = at[wish.pod_uid] == wish.to_node or (not wish.to_node and at[wish.pod_uid] != pod.node)
        assert arrived != bool(left.get((pod.namespace, pod.name)))


pod = pods_of(5)


def ordered(cluster: Cluster, *wishes: Wish) -> Ordering:
    return order_moves(Situation(cluster, inputs_of(cluster, {})), wishes, BackupSettings())


def test_a_cycle_is_left_out_and_said() -> None:
    cluster = cluster_of([node("a"), node("b")], [pod("one", "a"), pod("two", "b")])
    result = ordered(cluster, Wish("one", "b", "r"), Wish("two", "a", "r"))
    assert not result.moves
    lacking = "the pod requests 5 GiB of memory, of which the node has 3 GiB of memory free"
    assert [(each.name, each.why) for each in result.left_out] == [("one", lacking), ("two", lacking)]


def test_nodes_that_lack_the_same_are_counted_as_one_reason() -> None:
    pods = [pod("one", "a"), pod("two", "b"), pod("three", "c", gib=6)]
    result = ordered(cluster_of([node("a"), node("b"), node("c")], pods), Wish("one", "", "r"))
    assert [each.why for each in result.left_out] == ["2 too little memory is free"]


FULL = f"in namespace {PLACEHOLDER_NAMESPACE}, where its room is held, quota small limits pods to 3: 3 is used and the"


@pytest.mark.parametrize(
    ("namespace", "used", "kind", "why"),
    [
        ("shop", 3, "ReplicaSet", "quota small leaves 0 of pods while it ends, and its new pod needs 1"),
        ("shop", 2, "ReplicaSet", ""),
        ("shop", 3, "StatefulSet", ""),
        ("shop", 4, "StatefulSet", "quota small leaves -1 of pods, and its new pod needs 1"),
        (PLACEHOLDER_NAMESPACE, 3, "StatefulSet", f"{FULL} pod adds 1"),
        ("elsewhere", 3, "ReplicaSet", ""),
    ],
)
def test_a_pod_whose_move_a_quota_would_refuse_is_left_out(namespace: str, used: int, kind: str, why: str) -> None:
    quota = Quota(namespace, "small", {"pods": 3}, {"pods": used})
    cluster = cluster_of([node("a"), node("b")], [pod("one", "a", owner_kind=kind)], quotas=[quota])
    result = ordered(cluster, Wish("one", "b", "r"))
    assert [each.why for each in result.left_out] == [why] * bool(why)
    assert len(result.moves) == (not why)


def test_a_move_of_an_owners_only_ready_pod_costs_more() -> None:
    twins = {"owner_uid": "rs", "workload": "deployment/web"}
    pods = [pod("alone", "a"), pod("one", "b", 1, **twins), pod("two", "b", 1, **twins)]
    cluster = cluster_of([node("a"), node("b"), node("c", 64)], pods)
    result = ordered(cluster, Wish("alone", "c", "r"), Wish("one", "c", "r"))
    alone, one = (move.cost for move in result.moves)
    assert alone == pytest.approx(1.0 + 5 / 8 + 1.0)
    assert one == pytest.approx(1.0 + 1 / 8)
