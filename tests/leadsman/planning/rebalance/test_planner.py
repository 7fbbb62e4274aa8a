"""Moves that are worth it, and what keeps a pod from being moved again and again."""

from collections.abc import Sequence

from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod, cluster_of
from leadsman.decision.inputs import DecisionInputs, SelfHealing
from leadsman.planning.rebalance_plan import RebalanceSettings, plan_rebalance
from leadsman.planning.situation import Situation
from leadsman.published.moves import Departure, MovePlan, PlanOrigin
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import Reward
from leadsman.state.snapshot import AgedReward, Snapshot
from tests.leadsman.decision import make
from tests.leadsman.planning.backups.random_clusters import inputs_of
from tests.leadsman.planning.moves.movable_pods import node, pods_of

NOW = 5000.0
HOT, COLD = 0.95, 0.0
SETTINGS = RebalanceSettings()


pod = pods_of(1, owner="web")


def inputs(cluster: Cluster, **pressure: float) -> DecisionInputs:
    """pressure: node → share of the time that some task waits for a CPU. Delays: b is 1 ms from a, c and d 40."""
    states = {name: make.state(metrics={CPU_PRESSURE: value}) for name, value in pressure.items()}
    matrix = {"a": {"a": 0.1, "b": 1.0, "c": 40.0, "d": 40.0}}
    return replace(inputs_of(cluster, matrix), snapshot=Snapshot(nodes=states))


def hot(*pods: ClusterPod, nodes: str = "ab") -> tuple[Cluster, DecisionInputs]:
    """Node a is hot, and the others are not."""
    cluster = cluster_of([node(name) for name in nodes], pods)
    return cluster, inputs(cluster, **{name: HOT if name == "a" else COLD for name in nodes})


def planned(
    given: tuple[Cluster, DecisionInputs], departures: Sequence[Departure] = (), settings: RebalanceSettings = SETTINGS
) -> MovePlan:
    return plan_rebalance(Situation(*given), departures, settings, None, NOW, NOW)


def steps(plan: MovePlan) -> list[str]:
    return [f"{move.name} {move.from_node}>{move.to_node}" for move in plan.moves]


def test_a_pod_leaves_a_hot_node() -> None:
    plan = planned(hot(pod("one", "a"), pod("two", "b")))
    assert steps(plan) == ["one a>b"]
    assert plan.origin is PlanOrigin.REBALANCE
    assert plan.moves[0].gain > plan.moves[0].cost + SETTINGS.threshold
    assert plan.moves[0].reason == "node b scores higher than node a (pressure +9.0 points)"


def test_no_pod_goes_to_a_node_that_self_healing_refuses() -> None:
    cluster, known = hot(pod("one", "a"), nodes="abc")
    known = replace(known, self_healing=SelfHealing(refused={"c": "it is suspect"}))
    assert steps(planned((cluster, known))) == ["one a>b"]


def test_a_pod_goes_to_where_its_delay_is_lower() -> None:
    cluster = cluster_of([node("b"), node("c"), node("a", 1)], [pod("one", "c", labels={"delay_a": "50"}, gib=2)])
    assert steps(planned((cluster, inputs(cluster)))) == ["one c>b"]


def test_a_pod_leaves_a_node_that_fails_pods_of_its_type() -> None:
    good = Reward(at_seconds=0.0, healthy=30.0, recent=5.0)
    bad = Reward(at_seconds=0.0, healthy=1.0, failed=6.0, kuberl=0.4, last_incident_seconds=0.0)
    pods = [pod("one", "a", labels={"app": "web"}), pod("two", "b", labels={"app": "web"})]
    cluster, known = hot(*pods, nodes="abc")
    rewards = {name: AgedReward(bad if name == "a" else good, 100.0) for name in "abc"}
    fresh = {name: replace(state, hardware=None) for name, state in known.snapshot.nodes.items()}
    known = replace(known, snapshot=Snapshot(nodes=fresh, rewards={"web": rewards}))
    plan = planned((cluster, known))
    assert [move.from_node for move in plan.moves] == ["a"]
    assert "rewards +" in plan.moves[0].reason


def test_what_is_unknown_is_no_gain() -> None:
    cluster = cluster_of([node("a"), node("b")], [pod("one", "a")])
    assert not planned((cluster, inputs(cluster, b=COLD))).moves
    assert not planned((cluster, inputs(cluster, a=HOT))).moves


def test_one_pod_leaves_a_node_and_one_comes_in_a_plan() -> None:
    given = hot(*(pod(f"p{number}", "a", owner=f"o{number}") for number in range(4)), nodes="abcd")
    assert len(planned(given).moves) == 1


def test_a_pod_that_came_lately_is_not_moved_again() -> None:
    came = Departure("rs-web", "c", NOW - 500.0, landed_on="a")
    assert not planned(hot(pod("one", "a"), nodes="abc"), [came]).moves
    assert planned(hot(pod("one", "a"), nodes="abc"), [replace(came, at=NOW - 601.0)]).moves


def test_a_pod_does_not_go_back_to_where_it_was_taken_from() -> None:
    taken = Departure("rs-web", "b", NOW - 500.0, landed_on="elsewhere")
    assert not planned(hot(pod("one", "a")), [taken]).moves
    assert planned(hot(pod("one", "a")), [replace(taken, at=NOW - 601.0)]).moves


def test_after_two_returns_it_gives_up_and_says_so() -> None:
    plan = planned(hot(pod("one", "a")), [Departure("rs-web", "a", NOW - 9000.0, returns=2)])
    assert not plan.moves
    assert "came back 2 times" in plan.left_out[0].why
