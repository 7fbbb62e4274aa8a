"""On random small clusters: a place or a move is found exactly where trying everything finds one."""

from collections.abc import Iterator

import pytest

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.planning.moves.search import Search, why_never_moved
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import Rtts, inputs_of, loses_nothing, random_cluster_to_move

SEEDS = range(100)


def places(cluster: Cluster, matrix: Rtts, pod: ClusterPod) -> Iterator[str]:
    """By trying every node."""
    for node in cluster.nodes:
        after = cluster.with_pod(pod, node)
        if (
            node != pod.node
            and not Feasibility(cluster, pod).refusals(node)
            and loses_nothing(cluster, after, matrix, {pod.uid})
        ):
            yield node


def room_moves(cluster: Cluster, matrix: Rtts, pending: ClusterPod) -> Iterator[tuple[str, str]]:
    """By trying every other pod on every other node."""
    for moved in cluster.pods.values():
        if not moved.node or why_never_moved(moved):
            continue
        without = cluster.without_pod(moved.uid)
        if Feasibility(without, pending).refusals(moved.node):
            continue
        with_pending = cluster.with_pod(pending, moved.node)
        for node in cluster.nodes:
            after = with_pending.with_pod(moved, node)
            if node == moved.node or Feasibility(with_pending, moved).refusals(node):
                continue
            if loses_nothing(cluster, after, matrix, {moved.uid, pending.uid}):
                yield moved.uid, node


def search_of(cluster: Cluster, matrix: Rtts) -> Search:
    return Search(Situation(cluster, inputs_of(cluster, matrix)), lambda *_: False)


@pytest.mark.parametrize("seed", SEEDS)
def test_room_is_found_exactly_where_trying_every_single_move_finds_it(seed: int) -> None:
    cluster, matrix, pending = random_cluster_to_move(seed)
    if pending is not None:
        found = search_of(cluster, matrix).room_for(pending, why_never_moved)
        possible = set(room_moves(cluster, matrix, pending))
        assert (found is not None) == bool(possible)
        assert found is None or (found[0].uid, found[1]) in possible


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_place_is_found_exactly_where_trying_every_node_finds_one(seed: int) -> None:
    cluster, matrix, _ = random_cluster_to_move(seed)
    search = search_of(cluster, matrix)
    for pod in cluster.pods.values():
        if pod.node:
            possible = set(places(cluster, matrix, pod))
            found = next(search.places(pod), "")
            assert found in possible if possible else not found
