"""A plan that was handed over, as a story: what is accepted, what is begun when, what ends it."""

from typing import Any

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import LabelSelector
from leadsman.cluster.model import Cluster, ClusterPod, DisruptionBudget, cluster_of
from leadsman.planning.moves.mover import REMADE_SECONDS
from leadsman.planning.moves.ordering import Wish, order_moves
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement_plan import ReplacementMemory, ReplacementSettings
from leadsman.planning.situation import Situation
from leadsman.published.moves import (
    MOVES,
    HandedOverPlan,
    MovePlan,
    MoveProgress,
    Outcome,
    PlannedMove,
    PlanOrigin,
    PlanProgress,
    PlanRequest,
    RunState,
)
from tests.leadsman.planning.backups.random_clusters import inputs_of
from tests.leadsman.planning.moves.movable_pods import node, pods_of
from tests.leadsman.planning.moves.test_ordering import random_order
from tests.leadsman.planning.replacement.simulated_cluster import GRACE_SECONDS, SimulatedCluster

NOW = 1000.0


pod = pods_of(5)


class Story(SimulatedCluster):
    """kube-scheduler puts a moved pod where the extender steers it: to the node that is held for it, if it may."""

    def __init__(self, cluster: Cluster, plan: MovePlan) -> None:
        super().__init__(cluster, {}, ReplacementSettings(mends=False), self.steered)
        self.handed_over = HandedOverPlan(plan)
        self.steers = True

    def steered(self, pod: ClusterPod, nodes: list[str]) -> str:
        held = [move.to_node for move in self.memory.state.moves if move.owner_uid == pod.owner_uid]
        return held[0] if self.steers and held and held[0] in nodes else nodes[0]

    @property
    def progress(self) -> PlanProgress:
        assert self.memory.state.progress is not None
        return self.memory.state.progress

    def outcomes(self) -> list[Outcome]:
        return [each.outcome for each in self.progress.moves]

    def ask(self, request: PlanRequest) -> None:
        assert self.handed_over is not None
        self.handed_over = replace(self.handed_over, request=request)


def plan_of(cluster: Cluster, *wishes: tuple[str, str], **more: Any) -> MovePlan:
    ordered = order_moves(Situation(cluster, inputs_of(cluster, {})), [Wish(*each, "a test") for each in wishes], None)
    assert not ordered.left_out
    fields: dict[str, Any] = {"origin": PlanOrigin.OPTIMISE, "taken_at": NOW, **more}
    return MovePlan(moves=tuple(ordered.moves), **fields)


def three(**more: Any) -> Story:
    """Three pods that leave node a."""
    cluster = cluster_of([node("a", 32), node("b", 32)], [pod(name, "a") for name in ("one", "two", "six")])
    return Story(cluster, plan_of(cluster, ("one", "b"), ("two", "b"), ("six", "b"), **more))


@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_no_pod_is_evicted_twice_and_nothing_is_overcommitted(seed: int) -> None:
    cluster, matrix, _, ordered = random_order(seed)
    story = Story(cluster, MovePlan(origin=PlanOrigin.OPTIMISE, taken_at=NOW, moves=tuple(ordered.moves)))
    story.matrix = matrix
    for _ in range(120):
        story.second()
        assert len(set(story.evicted)) == len(story.evicted)
        workloads = [move.workload for move in story.memory.state.moves]
        assert len(set(workloads)) == len(workloads), "one move in flight a workload"
        for name, one in story.cluster.nodes.items():
            assert story.cluster.requested(name).fits(one.allocatable)
    assert story.progress.state in (RunState.DONE, RunState.ABORTED)
    assert len(story.evicted) >= story.progress.count(Outcome.MOVED)


def test_no_more_than_the_rate_begin_within_a_minute() -> None:
    cluster = cluster_of([node("a", 64), node("b", 64)], [pod(f"p{number}", "a", 1) for number in range(9)])
    story = Story(cluster, plan_of(cluster, *((f"p{number}", "b") for number in range(9))))
    story.run(59)
    assert sum(each.began_at is not None for each in story.progress.moves) == 6
    story.run(60)
    assert story.progress.state is RunState.DONE


def test_a_paused_plan_evicts_nothing_until_it_is_resumed() -> None:
    story = three()
    story.second()
    story.ask(PlanRequest.PAUSE)
    story.run(30)
    assert story.progress.state is RunState.PAUSED
    assert story.evicted == []
    assert len(story.cluster.pods) == 3, "the room that was held is released"
    story.ask(PlanRequest.RUN)
    story.run(60)
    assert story.progress.state is RunState.DONE


def test_an_aborted_plan_ends_what_is_under_way_and_begins_nothing_more() -> None:
    story = three()
    while not story.evicted:
        story.second()
    story.ask(PlanRequest.ABORT)
    story.run(30)
    assert story.outcomes() == [Outcome.MOVED, Outcome.WAITING, Outcome.WAITING]
    assert (story.progress.state, story.progress.note) == (RunState.ABORTED, "it was asked to")
    story.ask(PlanRequest.RUN)
    story.run(10)
    assert story.progress.state is RunState.ABORTED


def test_of_a_plan_whose_object_was_deleted_the_last_move_is_still_counted() -> None:
    story = three()
    while not story.evicted:
        story.second()
    story.handed_over = None
    story.run(30)
    assert (story.progress.state, story.outcomes()[0]) == (RunState.ABORTED, Outcome.MOVED)


def test_a_move_whose_owner_makes_no_new_pod_soon_keeps_its_room_from_others_no_longer() -> None:
    """A Deployment that was deleted, scaled down or rolled out meanwhile."""
    story = three()
    story.owners_make_new_pods = False
    while not story.evicted:
        story.second()
    story.run(int(GRACE_SECONDS + REMADE_SECONDS) - 1)
    assert story.outcomes()[0] is Outcome.MOVING
    story.run(3)
    assert story.outcomes()[0] is Outcome.FAILED


def test_two_failures_abort_a_plan() -> None:
    story = three()
    story.steers, story.limits = False, MovePlanLimits(per_minute=2)
    story.run(120)
    assert story.outcomes() == [Outcome.FAILED, Outcome.FAILED, Outcome.WAITING]
    assert story.progress.state is RunState.ABORTED
    assert "went back to node a" in story.progress.note


def test_a_budget_that_allows_nothing_fails_the_move_after_a_while() -> None:
    story = three()
    budget = DisruptionBudget("shop", "tight", LabelSelector(()))
    story.cluster = replace(story.cluster, budgets={("shop", "tight"): budget})
    story.run(50)
    assert story.outcomes() == [Outcome.WAITING] * 3
    assert story.progress.moves[0].note == "PodDisruptionBudget tight allows no eviction"
    story.run(80)
    assert story.progress.state is RunState.ABORTED
    assert story.evicted == []


def test_a_node_that_may_not_have_the_pod_any_more_once_its_room_is_held_costs_no_eviction() -> None:
    story = three()
    story.second()
    story.cluster = story.cluster.changed(nodes={"b": replace(story.cluster.nodes["b"], unschedulable=True)})
    story.second()
    assert (story.outcomes()[0], story.evicted) == (Outcome.FAILED, [])
    assert "node b cannot take the pod any more" in story.progress.moves[0].note


@pytest.mark.parametrize(
    ("fields", "gone", "why"),
    [
        ({"taken_at": NOW - 601.0}, "", "601 s old"),
        ({"taken_at": NOW + 700.0}, "", "in the future"),
        ({"taken_at": None}, "", "does not say when"),
        ({}, "two", "shop/two"),
    ],
)
def test_a_plan_of_another_time_or_with_a_pod_that_is_gone_is_refused(
    fields: dict[str, Any], gone: str, why: str
) -> None:
    story = three(**fields)
    story.cluster = story.cluster.without_pod(gone)
    story.run(10)
    assert story.progress.state is RunState.REFUSED
    assert why in story.progress.note
    assert story.evicted == []


def test_no_move_begins_after_the_plan_s_time() -> None:
    story = three(not_after=NOW + 1)
    story.run(60)
    assert story.progress.state is RunState.ABORTED
    assert "its time is over" in story.progress.note
    assert len(story.evicted) < 3


def rebalanced(story: Story, owner: str, from_node: str, to_node: str) -> MoveProgress:
    """What becomes of a move that re-balancing wants, after a restart."""
    story.memory = ReplacementMemory(MOVES.decode(MOVES.encode(story.memory.state)))
    [pod] = [each for each in story.cluster.pods.values() if each.owner_uid == f"rs-{owner}"]
    target = story.cluster.nodes[to_node].uid
    move = PlannedMove(
        pod_uid=pod.uid, namespace="shop", name=pod.name, from_node=from_node, to_node=to_node, to_node_uid=target
    )
    plan = MovePlan(origin=PlanOrigin.REBALANCE, taken_at=story.now, moves=(move,))
    story.handed_over = HandedOverPlan(plan)
    story.run(20)
    return story.progress.moves[0]


def test_a_pod_is_not_moved_twice_within_the_cooldown_by_plans_that_nobody_asked_for() -> None:
    story = three()
    story.cluster = story.cluster.changed(nodes={"c": node("c", 32)})
    story.run(60)
    assert rebalanced(story, "one", "b", "c").note == "it was moved lately, or a sibling left its node"
    story.now += 600
    assert rebalanced(story, "one", "b", "c").outcome is Outcome.MOVED


def test_nothing_leaves_a_node_that_is_suspect_by_now() -> None:
    story = three()
    story.second()
    story.avoid = frozenset({"a"})
    story.run(5)
    assert story.evicted == []


def test_while_a_budget_refuses_no_pod_has_left_and_no_sibling_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of([node("a", 32), node("b", 32)], [pod("one", "a")])
    story = Story(cluster, plan_of(cluster, ("one", "b")))
    with monkeypatch.context() as refused:
        refused.setattr(story, "evict", lambda _: None)
        story.run(5)
        assert not story.memory.state.departures
        sibling = replace(cluster.pods["one"], uid="of-a-scale-up", name="of-a-scale-up")
        story.cluster = story.cluster.with_pod(sibling, "a")
        story.second()
    story.run(20)
    assert story.outcomes() == [Outcome.MOVED]
