"""On random small clusters: no step of re-placement breaks anything on the way."""

import pytest
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.scheduling import Feasibility
from leadsman.planning.moves.mover import EvictPod
from leadsman.planning.moves.search import why_never_moved
from leadsman.published.moves import Move, MoveStep
from tests.leadsman.planning.backups.random_clusters import PROTECTED, loses_nothing, random_cluster_to_move
from tests.leadsman.planning.replacement.simulated_cluster import AT_ONCE, SimulatedCluster


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
        assert not Feasibility(after.without_pod(pending.uid), pending).refusals(move.from_node)
    assert not Feasibility(after.without_pod(pod.uid), pod).refusals(move.to_node)
    assert loses_nothing(cluster, after, simulated.matrix, moved)


@pytest.mark.parametrize("seed", range(60))
def test_no_step_of_any_plan_breaks_a_bound_a_budget_or_the_capacity(seed: int) -> None:
    cluster, matrix, _ = random_cluster_to_move(seed)
    cluster = replace(cluster, budgets={("shop", "protected"): PROTECTED})
    simulated = SimulatedCluster(
        cluster, matrix, replace(AT_ONCE, per_minute=3), lambda pod, nodes: nodes[seed % len(nodes)]
    )
    for _ in range(40):
        before = simulated.cluster
        plan = simulated.second()
        state = plan.memory.state
        assert len({move.workload for move in state.moves}) == len(state.moves)
        assert len(state.started) <= 3
        assert sum(move.step is MoveStep.HOLDING for move in state.moves) <= 1
        moves = {move.pod_uid: move for move in state.moves}
        for action in plan.actions:
            if isinstance(action, EvictPod):
                check_eviction(simulated, before, moves[action.uid])
        for node in simulated.cluster.nodes:
            assert simulated.cluster.requested(node).fits(simulated.cluster.nodes[node].allocatable)
    needed = {uid for move in simulated.memory.state.moves for uid in (move.pod_uid, move.for_uid)}
    holding = {uid.removeprefix("hold-") for uid in simulated.cluster.pods if uid.startswith("hold-")}
    assert holding <= needed, "no room is held that no move needs"
