"""On random small clusters: a place or a move is found exactly where trying everything finds one, and no step breaks
anything on the way."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from leadsman.cluster.budgets import DisruptionBudget
from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import refusals
from leadsman.cluster.selectors import LabelSelector, Operator, Requirement
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.model import PodInfo
from leadsman.planning.moves.bounds import SupposedBounds
from leadsman.planning.moves.model import EvictPod, Move, MoveStep
from leadsman.planning.moves.movable import why_never_moved
from leadsman.planning.moves.search import Search
from leadsman.planning.replacement.model import ReplacementPlan
from tests.leadsman.planning.backups.random_clusters import inputs_of, random_case
from tests.leadsman.planning.replacement.simulated_cluster import AT_ONCE, Matrix, SimulatedCluster, passing_nodes

SEEDS = range(150)
PROTECTED = DisruptionBudget("shop", "protected", LabelSelector((Requirement("app", Operator.IN, ("a",)),)))


def random_cluster(seed: int) -> tuple[Cluster, Matrix, ClusterPod | None]:
    """A case of at most five nodes in which one bounded pod, if there is one, has lost its node and grown."""
    cluster, inputs = random_case(seed, nodes=5, pods=16)
    matrix = inputs.delay_views[0].rtt_ms  # type: ignore[attr-defined]
    pods: dict[str, ClusterPod | None] = {
        uid: replace(pod, labels={**pod.labels, "app": pod.workload[-1]}) for uid, pod in cluster.pods.items()
    }
    cluster = cluster.changed(pods=pods)
    bounded = [pod for pod in cluster.pods.values() if any(label.startswith("delay_") for label in pod.labels)]
    if not bounded:
        return cluster, matrix, None
    pending = replace(bounded[seed % len(bounded)], node="", phase="Pending")
    pending = replace(pending, requests=pending.requests + pending.requests - replace(pending.requests, cpu_millis=0))
    return cluster.with_pod(pending, ""), matrix, pending


def keeps(cluster: Cluster, matrix: Matrix, pod: ClusterPod) -> bool:
    """Whether the pod keeps its bounds where everything is now, room aside."""
    info = PodInfo(pod.namespace, pod.name, pod.uid, pod.labels, pod.annotations, pod.workload)
    return not info.has_delay_bounds or pod.node not in DelayFilter().refusals(
        info, tuple(cluster.nodes), inputs_of(placed_only(cluster), matrix)
    )


def placed_only(cluster: Cluster) -> Cluster:
    return cluster.changed(pods={pod.uid: None for pod in cluster.unbound_pods})


def loses_nothing(before: Cluster, after: Cluster, matrix: Matrix, moved: set[str]) -> bool:
    """Whether the moved pods keep their bounds afterwards, and the others those that they kept before."""
    return all(
        keeps(after, matrix, pod)
        for uid, pod in after.pods.items()
        if pod.node and (uid in moved or keeps(before, matrix, before.pods[uid]))
    )


def places(cluster: Cluster, matrix: Matrix, pod: ClusterPod) -> Iterator[str]:
    """By trying every node."""
    for node in cluster.nodes:
        after = cluster.with_pod(pod, node)
        if node != pod.node and not refusals(cluster, pod, node) and loses_nothing(cluster, after, matrix, {pod.uid}):
            yield node


def room_moves(cluster: Cluster, matrix: Matrix, pending: ClusterPod) -> Iterator[tuple[str, str]]:
    """By trying every other pod on every other node."""
    for moved in cluster.pods.values():
        if not moved.node or why_never_moved(moved):
            continue
        without = cluster.without_pod(moved.uid)
        if refusals(without, pending, moved.node):
            continue
        with_pending = cluster.with_pod(pending, moved.node)
        for node in cluster.nodes:
            after = with_pending.with_pod(moved, node)
            if node == moved.node or refusals(with_pending, moved, node):
                continue
            if loses_nothing(cluster, after, matrix, {moved.uid, pending.uid}):
                yield moved.uid, node


def search_of(cluster: Cluster, matrix: Matrix) -> Search:
    return Search(cluster, SupposedBounds(cluster, inputs_of(placed_only(cluster), matrix)), lambda *_: False)


@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_found_exactly_where_trying_every_single_move_finds_it(seed: int) -> None:
    cluster, matrix, pending = random_cluster(seed)
    if pending is not None:
        found = search_of(cluster, matrix).room_for(pending, why_never_moved)
        possible = set(room_moves(cluster, matrix, pending))
        assert (found is not None) == bool(possible)
        assert found is None or (found.moved.uid, found.to_node) in possible


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_place_is_found_exactly_where_trying_every_node_finds_one(seed: int) -> None:
    cluster, matrix, _ = random_cluster(seed)
    search = search_of(cluster, matrix)
    for pod in cluster.pods.values():
        if pod.node:
            possible = set(places(cluster, matrix, pod))
            found = search.new_place(pod)
            assert found in possible if possible else not found


def test_the_random_clusters_have_both_kinds_of_cases() -> None:
    possible = impossible = 0
    for seed in SEEDS:
        cluster, matrix, pending = random_cluster(seed)
        if pending is not None and not passing_nodes(cluster, pending, inputs_of(placed_only(cluster), matrix)):
            exists = any(True for _ in room_moves(cluster, matrix, pending))
            possible, impossible = possible + exists, impossible + (not exists)
    assert possible >= 5
    assert impossible >= 20


def check_eviction(simulated: SimulatedCluster, before: Cluster, move: Move) -> None:
    """At the moment of an eviction: the pod has a place that keeps every bound, and every budget is kept."""
    pod = before.pods[move.pod_uid]
    assert not why_never_moved(pod)
    assert not PROTECTED.covers(pod)
    held = [each for each in before.pods_on(move.to_node) if each.uid == f"hold-{move.pod_uid}"]
    assert held
    assert pod.requests.fits(held[0].requests)
    cluster = before.changed(pods={uid: None for uid in before.pods if uid.startswith("hold-")})
    moved, after = {pod.uid}, cluster.with_pod(pod, move.to_node)
    if move.for_uid:
        pending = cluster.pods[move.for_uid]
        moved.add(pending.uid)
        after = after.with_pod(pending, move.from_node)
        assert not refusals(after.without_pod(pending.uid), pending, move.from_node)
    assert not refusals(after.without_pod(pod.uid), pod, move.to_node)
    assert loses_nothing(cluster, after, simulated.matrix, moved)


def check_budgets(plan: ReplacementPlan, per_minute: int) -> None:
    state = plan.memory.state
    workloads = [move.workload for move in state.moves]
    assert len(set(workloads)) == len(workloads)
    assert len(state.started) <= per_minute
    assert sum(move.step is MoveStep.HOLDING for move in state.moves) <= 1


@pytest.mark.parametrize("seed", range(60))
def test_no_step_of_any_plan_breaks_a_bound_a_budget_or_the_capacity(seed: int) -> None:
    cluster, matrix, _ = random_cluster(seed)
    cluster = replace(cluster, budgets={("shop", "protected"): PROTECTED})
    simulated = SimulatedCluster(
        cluster, matrix, replace(AT_ONCE, per_minute=3), lambda pod, nodes: nodes[seed % len(nodes)]
    )
    for _ in range(40):
        before = simulated.cluster
        plan = simulated.second()
        check_budgets(plan, 3)
        moves = {move.pod_uid: move for move in plan.memory.state.moves}
        for action in plan.actions:
            if isinstance(action, EvictPod):
                check_eviction(simulated, before, moves[action.uid])
        for node in simulated.cluster.nodes:
            assert simulated.cluster.requested(node).fits(simulated.cluster.nodes[node].allocatable)
    needed = {uid for move in simulated.memory.state.moves for uid in (move.pod_uid, move.for_uid)}
    holding = {uid.removeprefix("hold-") for uid in simulated.cluster.pods if uid.startswith("hold-")}
    assert holding <= needed, "no room is held that no move needs"
