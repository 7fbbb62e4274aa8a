"""Rewards in a decision: through the same facts, scores and filters as everything else."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import decide, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, pod_type_of
from leadsman.decision.policy import BreakerPolicy, Policy, RewardRule, RewardsPolicy, ScoresPolicy
from leadsman.decision.rewards import rewards_score
from leadsman.rewards import reward_updates
from leadsman.rewards.posterior import node_posterior
from leadsman.state.records import Identity, Quality, Reward
from leadsman.state.snapshot import AgedReward, Snapshot
from tests.leadsman.decision import make

NODES = tuple(f"node-{n}" for n in range(6))
NOW = 100.0
GOOD = Reward(at_seconds=0.0, healthy=30.0, recent=5.0)
BAD = Reward(at_seconds=0.0, healthy=1.0, failed=6.0, setbacks=3, kuberl=0.4, last_incident_seconds=0.0)
HOUR = reward_updates.HALF_LIFE_SECONDS
CLAIMS = st.builds(
    Reward,
    at_seconds=st.just(0.0),
    healthy=st.floats(0, 1e6),
    recent=st.floats(0, 1e6),
    failed=st.floats(0, 1e6),
    early=st.floats(0, 4),
    late=st.floats(0, 4),
    kuberl=st.floats(0, 1),
)
POD = PodInfo("default", "web-1", uid="u1", labels={"app": "web"})


def facts(by_node: Mapping[str, Reward], now: float = NOW, seen_at: float = NOW, **policy: Any) -> DecisionInputs:
    """All nodes fresh at `now`; the rewards are those of type web, last changed at `seen_at`."""
    fresh = make.state(freshness="fresh")
    states = {node: type(fresh)(heartbeat=fresh.heartbeat, changed_at=now) for node in NODES}
    known = {node: AgedReward(reward, seen_at) for node, reward in by_node.items()}
    return DecisionInputs(Snapshot(states, rewards={"web": known} if known else {}), Policy(**policy), now)


def scores(found: DecisionInputs, pod: PodInfo = POD) -> Mapping[str, int]:
    return score_nodes(pod, NODES, found).scores


def others(**special: Reward) -> dict[str, Reward]:
    return dict.fromkeys(NODES, GOOD) | {node.replace("_", "-"): reward for node, reward in special.items()}


class TestScore:
    def test_a_node_that_fails_pods_comes_last(self) -> None:
        found = scores(facts(others(node_0=BAD)))
        assert found["node-0"] < 5
        assert {found[node] for node in NODES[1:]} == {10}

    def test_a_type_without_rewards_is_warned_by_another(self) -> None:
        found = scores(facts(others(node_0=BAD)), PodInfo("d", "x"))
        assert (found["node-0"] < 10, {found[node] for node in NODES[1:]}) == (True, {10})

    def test_a_type_that_does_well_there_now_is_not_warned(self) -> None:
        """Its last failure is later than the other's, and it did well since."""
        failing = Reward(at_seconds=7_200.0, healthy=1.0, failed=1.0, last_incident_seconds=0.0)
        found = facts(others(node_0=failing))
        well = {"db": {"node-0": AgedReward(Reward(at_seconds=7_200.0, healthy=30.0, recent=12.0), NOW)}}
        snapshot = Snapshot(found.snapshot.nodes, rewards={**found.snapshot.rewards, **well})
        pod = PodInfo("d", "db-1", labels={"app": "db"})
        assert scores(DecisionInputs(snapshot, found.policy, NOW), pod)["node-0"] == 10

    @pytest.mark.parametrize(
        "rewards",
        [
            {"node-0": BAD},
            {"node-0": BAD, "node-1": GOOD},
            dict.fromkeys(NODES[:3], BAD) | dict.fromkeys(NODES[3:], GOOD),
        ],
        ids=["that runs nowhere else", "that runs on one other node", "that fails on half of its nodes"],
    )
    def test_a_type_warns_no_other(self, rewards: dict[str, Reward]) -> None:
        assert rewards_score.RewardsScore().score(PodInfo("d", "x"), NODES, facts(rewards)) is None

    def test_failures_of_a_month_ago_on_other_nodes_mute_no_warning(self) -> None:
        found = facts(others(node_0=BAD, node_1=BAD, node_2=BAD))
        known = found.snapshot.rewards["web"]
        old = {node: structs.replace(known[node], seen_at=NOW - 720 * HOUR) for node in NODES[1:3]}
        snapshot = structs.replace(found.snapshot, rewards={"web": {**known, **old}})
        ranked = scores(structs.replace(found, snapshot=snapshot), PodInfo("d", "x"))
        assert (ranked["node-0"] < 10, {ranked[node] for node in NODES[1:]}) == (True, {10})

    def test_two_bad_nodes_of_a_rack_warn_of_the_third(self) -> None:
        found = facts(others(node_0=BAD, node_1=BAD))
        racks = {node: Identity("o", 1, "a", rack="near" if n < 3 else "far") for n, node in enumerate(NODES)}
        states = {node: structs.replace(state, identity=racks[node]) for node, state in found.snapshot.nodes.items()}
        ranked = scores(DecisionInputs(structs.replace(found.snapshot, nodes=states), found.policy, NOW))
        assert (ranked["node-2"] < 10, {ranked[node] for node in NODES[3:]}) == (True, {10})

    def test_a_node_on_which_twenty_types_failed_still_has_a_score(self) -> None:
        found = facts(others(node_0=BAD))
        rewards = {f"type-{n}": found.snapshot.rewards["web"] for n in range(20)}
        snapshot = structs.replace(found.snapshot, rewards=rewards)
        ranked = scores(DecisionInputs(snapshot, found.policy, NOW), PodInfo("d", "x"))
        assert (ranked["node-0"] < 5, {ranked[node] for node in NODES[1:]}) == (True, {10})

    def test_weight_zero_switches_it_off(self) -> None:
        off = ScoresPolicy(rewards=RewardsPolicy(weight=0.0))
        assert rewards_score.RewardsScore().score(POD, NODES, facts(others(), scores=off)) is None

    def test_a_node_never_tried_is_as_good_as_any(self) -> None:
        """kubeRL: a new node under a known type reads 0."""
        some = others(node_0=BAD)
        del some["node-5"]
        assert scores(facts(some))["node-5"] == 10

    def test_a_doubt_never_ties_with_none(self) -> None:
        """A value of 0.96 would round to 10."""
        doubted = Reward(at_seconds=0.0, healthy=20.0, recent=2.75, failed=1.0)
        assert scores(facts(others(node_0=doubted)))["node-0"] <= 9

    def test_two_doubts_of_one_tenth_do_not_tie(self) -> None:
        """Or the emptier of the two would be taken, which is the one that was avoided."""
        one, less = (Reward(at_seconds=0.0, healthy=20.0, recent=recent, failed=1.0) for recent in (1.25, 1.5))
        found = facts(others(node_0=one, node_1=less))
        values = [rewards_score.assess_type("web", found).posteriors[node].value for node in ("node-0", "node-1")]
        assert [round(10 * value) for value in values] == [8, 8]
        assert scores(found)["node-0"] < scores(found)["node-1"] < 10

    def test_evidence_fades_while_nothing_is_written(self) -> None:
        doubted = structs.replace(BAD, recent=3.0)
        before, after = (scores(facts(others(node_0=doubted), now=NOW + age))["node-0"] for age in (0.0, 5 * HOUR))
        assert before < after

    def test_the_writers_clock_does_not_matter(self) -> None:
        far = Reward(at_seconds=9e9, healthy=1.0, failed=6.0, last_incident_seconds=9e9)
        assert scores(facts(others(node_0=far))) == scores(facts(others(node_0=BAD)))

    def test_twice_as_slow_ranks_below_until_that_has_faded(self) -> None:
        """A node that is avoided writes nothing, so its record stays as it is."""
        fast, slow = (Reward(0.0, recent=5.0, qualities={"run_time": Quality(cost, 9.0)}) for cost in (1.0, 1.7))
        rewards = dict.fromkeys(NODES, fast) | {"node-0": slow}
        found, later = (scores(facts(rewards, now=NOW + age)) for age in (0.0, 5 * HOUR))
        assert (found["node-0"] < 7, found["node-1"], later["node-0"]) == (True, 10, 10)

    def test_the_store_away_is_neutral(self) -> None:
        """Nobody has reported for long; the rewards are still in memory."""
        near = facts(others(node_0=BAD))
        ranked = score_nodes(POD, NODES, DecisionInputs(near.snapshot, near.policy, NOW + 60.0))
        assert (set(ranked.scores.values()), "0 of 6 nodes report" in ranked.neutral) == ({5}, True)

    def test_kuberls_rule_cuts_its_average_to_tenths_and_knows_of_no_other_type(self) -> None:
        found = facts(others(node_0=BAD), scores=ScoresPolicy(rewards=RewardsPolicy(rule=RewardRule.KUBERL)))
        assert (scores(found)["node-0"], scores(found)["node-1"]) == (4, 10)
        assert len(set(scores(found, PodInfo("d", "x")).values())) == 1

    def test_an_explanation_has_the_numbers_and_says_that_another_type_warned(self) -> None:
        found = facts(others(node_0=BAD))
        own, other = (
            rewards_score.RewardsScore().evidence(pod, NODES, found).measured for pod in (POD, PodInfo("d", "x"))
        )
        assert own["reward_blame_ratio"]["node-0"] > 0.9
        shown = ("ratio", "lower_ratio", "blame_ratio", "samples", "shared_fault_ratio")
        assert set(own) == {f"reward_{each}" for each in shown}
        assert set(other["reward_shared_fault_ratio"]) == {"node-0"}

    @settings(max_examples=50)
    @given(claim=CLAIMS)
    def test_no_report_lowers_the_honest(self, claim: Reward) -> None:
        """G4: they keep the best score there is, so nothing that a node says of itself lifts it above them."""
        found = scores(facts(others(node_0=claim)))
        assert {found[node] for node in NODES[1:]} == {max(found.values())}


class TestReturn:
    RETURNING = Reward(at_seconds=0.0, healthy=1.0, failed=0.04)

    def seen_by(self, found: DecisionInputs, pods: int) -> list[int]:
        """The numbers of those of so many pods to which node-0 looks good."""
        numbered = (PodInfo("d", "web", uid=f"u{n}", labels={"app": "web"}) for n in range(pods))
        return [n for n, pod in enumerate(numbered) if scores(found, pod)["node-0"] == 10]

    def test_few_pods_see_a_node_that_comes_back_and_the_same_ones_each_time(self) -> None:
        seen, again = (self.seen_by(facts(others(node_0=self.RETURNING)), 400) for _ in range(2))
        assert 40 < len(seen) < 120
        assert seen == again

    def test_a_node_that_failed_again_and_again_is_tried_after_four_half_lives_by_few_pods(self) -> None:
        before, after = (facts(others(node_0=BAD), now=NOW + half_lives * HOUR) for half_lives in (4.0, 4.5))
        assert self.seen_by(before, 100) == []
        assert 5 < len(self.seen_by(after, 100)) < 35

    @pytest.mark.parametrize(
        ("early", "late", "seen"),
        [([], 0.0, True), ([4.0], 0.0, True), ([2.0] * 3, 0.0, False), ([2.0] * 3, 2.0, True)],
    )
    def test_it_is_later_where_pods_fail_early_on_several_nodes(
        self, early: list[float], late: float, seen: bool
    ) -> None:
        failed_once = Reward(at_seconds=0.0, healthy=5.0, failed=1.0, setbacks=1, last_incident_seconds=0.0)
        rewards = others(node_0=failed_once)
        for node, each in zip(NODES[1:], [*early, 0.0, 0.0, 0.0, 0.0, 0.0], strict=False):
            rewards[node] = structs.replace(GOOD, early=each, late=late)
        assert bool(self.seen_by(facts(rewards, now=NOW + HOUR), 50)) == seen

    @pytest.mark.parametrize(("bad", "half_lives"), [(1, 1.0), (2, 2.0)])
    def test_a_failure_without_health_costs_less_where_no_other_node_is_bad(self, bad: int, half_lives: float) -> None:
        rewards = [Reward(at_seconds=0.0, failed=1.0, setbacks=2)] * bad
        assert rewards_score.retry_half_lives([*rewards, *[GOOD] * (6 - bad)])[1] == half_lives

    def test_once_it_did_well_all_see_it(self) -> None:
        proved = Reward(at_seconds=0.0, healthy=2.0, recent=1.5, failed=0.04)
        assert len(self.seen_by(facts(others(node_0=proved)), 50)) == 50


class TestBreaker:
    ON = BreakerPolicy(failures=3.0, hold_seconds=600.0)

    def refused(self, found: DecisionInputs, nodes: tuple[str, ...] = NODES) -> set[str]:
        return set(rewards_score.BreakerFilter().refusals(POD, nodes, found))

    def test_a_node_that_keeps_failing_is_refused_where_asked(self) -> None:
        assert self.refused(facts(others(node_0=BAD))) == set()
        found = facts(others(node_0=BAD), breaker=self.ON)
        assert filter_nodes(POD, NODES, found).refused["node-0"].reason == "pods of type web keep failing on the node"

    def test_until_the_hold_has_passed_since_the_last_incident(self) -> None:
        at = [facts(others(node_0=BAD), now=NOW + age, breaker=self.ON) for age in (599.0, 601.0)]
        assert [self.refused(found) for found in at] == [{"node-0"}, set()]

    def test_few_failures_are_none(self) -> None:
        few = Reward(at_seconds=0.0, failed=2.0, last_incident_seconds=0.0)
        assert self.refused(facts(others(node_0=few), breaker=self.ON)) == set()

    def test_the_last_node_is_never_refused(self) -> None:
        found = facts(others(node_0=BAD), breaker=self.ON)
        assert self.refused(found, ("node-0",)) == set()
        assert decide(POD, ("node-0",), found).kept == ("node-0",)

    def test_a_type_that_never_ran_is_not_refused_for_what_others_did(self) -> None:
        found = facts(others(node_0=BAD), breaker=self.ON)
        assert filter_nodes(PodInfo("default", "new-1"), NODES, found).kept == NODES

    def test_what_fails_everywhere_is_refused_nowhere(self) -> None:
        assert self.refused(facts(dict.fromkeys(NODES, BAD), breaker=self.ON)) == set()


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (PodInfo("d", "p", labels={"podtype": "D", "app": "web"}), "D"),
        (PodInfo("d", "p", workload="deployment/web"), "web"),
        (PodInfo("d", "p", workload="job/report-28391234"), "report"),
        (PodInfo("d", "p", workload="pod/p"), "p"),
        (PodInfo("d", "p"), "p"),
    ],
)
def test_a_pods_type_is_the_agents(pod: PodInfo, expected: str) -> None:
    assert pod_type_of(pod) == expected


# What a record says of a node, hours after it was written.

HOUR_SECONDS = 3_600.0


def failed(setbacks: int, half_life_seconds: float = HOUR_SECONDS, times: float = 1.0, recent: float = 0.0) -> Reward:
    return Reward(
        at_seconds=0.0,
        half_life_seconds=half_life_seconds,
        recent=recent,
        failed=times,
        setbacks=setbacks,
        last_incident_seconds=0.0,
    )


def value(reward: Reward, now: float) -> float:
    trials = rewards_score.trials_until_retry(AgedReward(reward, 0.0), now)
    return node_posterior(trials.recent, trials.failed, 0.95).value


@given(setbacks=st.integers(1, 3), half_life_seconds=st.floats(60.0, 86_400.0), times=st.floats(1.0, 1_000.0))
def test_a_node_stays_in_doubt_until_it_is_tried_again_however_often_it_failed(
    setbacks: int, half_life_seconds: float, times: float
) -> None:
    reward = failed(setbacks, half_life_seconds, times)
    retry = rewards_score.RETRY_HALF_LIVES[setbacks - 1] * half_life_seconds
    assert value(reward, 0.99 * retry) == pytest.approx(value(reward, 0.0), abs=0.02)
    assert value(reward, 0.0) < 0.6
    assert value(reward, retry) > 0.98


def test_the_age_of_an_incident_is_what_the_writer_says_and_what_the_reader_waited() -> None:
    for last_incident, age in ((600.0, 320.0), (None, None)):
        reward = AgedReward(Reward(at_seconds=900.0, last_incident_seconds=last_incident), 50.0)
        assert rewards_score.incident_age_seconds(reward, 70.0) == age
