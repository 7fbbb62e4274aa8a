"""The node's own book: credit by time, failures once each, both fading. Faults of kubeRL are named where they are."""

from math import e, log
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.rewards.rewards_score import quality_factors
from leadsman.rewards import reward_updates
from leadsman.rewards.incident_causes import BLAMES_NOBODY, IncidentCause
from leadsman.rewards.reward_updates import (
    credit_completion,
    credit_health,
    decay,
    new_reward,
    record_incident,
    record_quality,
)
from leadsman.state.records import Quality

T0 = 1_700_000_000.0
HALF = reward_updates.HALF_LIFE_SECONDS


class TestCredit:
    @given(st.lists(st.floats(0, 1_000), min_size=1, max_size=10))
    def test_it_does_not_matter_in_how_many_pieces_time_is_credited(self, pieces: list[float]) -> None:
        reward, age = new_reward(T0), 0.0
        for piece in pieces:
            reward, age = credit_health(reward, age, age + piece, T0), age + piece
        assert reward.healthy == pytest.approx(reward_updates.earned_trials(0.0, age), abs=1e-9)

    def test_an_hour_of_an_old_pod_earns_less_than_one_of_a_new_one(self) -> None:
        assert 0 < reward_updates.earned_trials(36_000, 39_600) < reward_updates.earned_trials(0, 3_600) / 2

    def test_a_job_that_ends_well_is_a_whole_trial_however_short(self) -> None:
        """Exit 0 of a finished job is a success."""
        done = credit_completion(credit_health(new_reward(T0), 0.0, 5.0, T0), 5.0, T0)
        assert (done.healthy, done.failed, done.incidents) == (pytest.approx(1.0), 0.0, {})

    def test_a_long_job_that_ends_well_has_been_credited_already(self) -> None:
        before = credit_health(new_reward(T0), 0.0, 6_000.0, T0)
        assert credit_completion(before, 6_000.0, T0) == before

    def test_recent_credit_is_bounded(self) -> None:
        assert credit_health(new_reward(T0), 0.0, 1e9, T0).recent == reward_updates.MAX_RECENT_TRIALS


class TestFailure:
    def test_each_cause_is_counted_under_its_name(self) -> None:
        reward = new_reward(T0)
        for cause in IncidentCause:
            reward = record_incident(reward, cause, T0)
        assert reward.incidents == {cause.value: 1 for cause in IncidentCause}
        assert reward.failed == len(set(IncidentCause) - BLAMES_NOBODY)

    @pytest.mark.parametrize("cause", [IncidentCause.CLAIM_UNBOUND, IncidentCause.IMAGE_UNKNOWN])
    def test_nobodys_fault_changes_no_evidence(self, cause: IncidentCause) -> None:
        after = record_incident(credit_health(new_reward(T0), 0.0, 600.0, T0), cause, T0)
        assert (after.healthy, after.recent, after.failed, after.kuberl) == (
            pytest.approx(1.0), pytest.approx(1.0), 0.0, 1.0)  # fmt: skip
        assert after.last_incident_seconds is None

    def test_it_leaves_nothing_of_the_recent_credit_and_all_of_the_total(self) -> None:
        before = credit_health(new_reward(T0), 0.0, 600.0, T0)
        after = record_incident(before, IncidentCause.CRASH, T0)
        assert (after.healthy, after.recent) == (before.healthy, 0.0)

    def test_setbacks_are_failures_in_a_row_and_a_first_one_without_any_health_counts_two(self) -> None:
        seen, reward = [], credit_health(new_reward(T0), 0.0, 600.0, T0)
        for _ in range(4):
            reward = record_incident(reward, IncidentCause.CRASH, T0)
            seen.append(reward.setbacks)
        healed = credit_health(reward, 0.0, 600.0, T0 + 600.0)
        assert (seen, record_incident(healed, IncidentCause.CRASH, T0 + 600.0).setbacks) == ([1, 2, 3, 3], 1)
        assert record_incident(new_reward(T0), IncidentCause.CRASH, T0).setbacks == 2

    @pytest.mark.parametrize(("pods", "early_and_late"), [(0, (0, 0)), (1, (1, 0)), (14, (1, 0)), (15, (0, 1))])
    def test_it_is_early_or_late_by_the_pods_that_ran_well_before(
        self, pods: int, early_and_late: tuple[int, int]
    ) -> None:
        reward = new_reward(T0)
        for _ in range(pods):
            reward = credit_health(credit_health(reward, 0.0, 50.0, T0), 50.0, 70.0, T0)
        after = record_incident(reward, IncidentCause.CRASH, T0)
        assert ((after.early, after.late), after.sound_pods) == (early_and_late, 0)

    def test_a_node_tells_of_four_early_and_late_ones_at_most(self) -> None:
        reward = new_reward(T0)
        for _ in range(9):
            reward = record_incident(credit_completion(reward, 0.0, T0), IncidentCause.CRASH, T0)
        assert (reward.early, reward.late) == (4.0, 0.0)

    def test_health_that_began_before_it_is_not_recent(self) -> None:
        """Old pods run on while new ones fail."""
        after = credit_health(record_incident(new_reward(T0), IncidentCause.CRASH, T0), 600.0, 660.0, T0 + 60)
        assert (after.recent, after.healthy > 0) == (0.0, True)

    def test_health_that_began_with_the_restart_is_recent_though_the_incident_was_noticed_a_moment_later(self) -> None:
        assert credit_health(record_incident(new_reward(T0), IncidentCause.CRASH, T0), 0.0, 61.0, T0 + 60).recent > 0.1

    def test_a_container_that_recovered_earns_again(self) -> None:
        """kubeRL gave nothing more after any restart."""
        after = record_incident(new_reward(T0), IncidentCause.CRASH, T0)
        for age in range(60, 3_660, 60):
            after = credit_health(after, age - 60, age, T0 + age)
        assert (after.recent > 2.0, after.kuberl > 0.95) == (True, True)


class TestFading:
    def test_evidence_halves_over_the_half_life(self) -> None:
        """kubeRL never forgot."""
        before = record_incident(credit_health(new_reward(T0), 0.0, 600.0, T0), IncidentCause.CRASH, T0)
        after = decay(before, T0 + HALF)
        assert (after.healthy, after.failed) == (before.healthy / 2, before.failed / 2)

    @given(st.floats(0, 1e6), st.floats(0, 1e6))
    def test_fading_in_steps_is_fading_at_once(self, one: float, two: float) -> None:
        before = record_incident(new_reward(T0), IncidentCause.CRASH, T0)
        steps = decay(decay(before, T0 + one), T0 + one + two)
        assert steps.failed == pytest.approx(decay(before, T0 + one + two).failed, abs=1e-9)

    def test_a_clock_that_went_back_adds_nothing_and_hides_no_health_that_follows(self) -> None:
        before = record_incident(new_reward(T0), IncidentCause.CRASH, T0)
        after = decay(before, T0 - 1e6)
        assert after.failed == before.failed
        assert credit_health(after, 0.0, 600.0, T0 - 1e6 + 600).recent > 0


class TestQuality:
    def test_the_mean_is_of_logarithms(self) -> None:
        reward = record_quality(record_quality(new_reward(T0), "run_time", 1.0, T0), "run_time", 4.0, T0)
        assert reward.qualities["run_time"].log_cost == pytest.approx(log(2.0))

    @pytest.mark.parametrize("cost", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_cost_without_a_logarithm_changes_nothing(self, cost: float) -> None:
        assert record_quality(new_reward(T0), "metric", cost, T0) == new_reward(T0)

    def test_an_old_observation_gives_way_to_new_ones(self) -> None:
        reward = record_quality(new_reward(T0), "run_time", 100.0, T0)
        for _ in range(3):
            reward = record_quality(reward, "run_time", 1.0, T0 + 10 * HALF)
        assert reward.qualities["run_time"].log_cost < log(2.0)


def timed(**seconds: float) -> dict[str, dict[str, Quality]]:
    return {node: {"run_time": Quality(log(each), 20.0)} for node, each in seconds.items()}


def test_faster_than_usual_gains_nothing() -> None:
    assert "fast" not in quality_factors(timed(a=10, b=10, c=10, fast=1))


def test_run_times_that_differ_by_chance_put_no_node_in_doubt() -> None:
    assert quality_factors(timed(a=9, b=10, c=11, d=12)) == {}


def test_of_two_nodes_neither_is_called_slow() -> None:
    assert quality_factors(timed(a=10, b=20)) == {}


def test_few_observations_count_less() -> None:
    nodes = timed(a=10, b=10, c=10)
    few, many = ({"run_time": Quality(log(20), samples)} for samples in (1.0, 20.0))
    assert quality_factors(nodes | {"slow": few})["slow"] > quality_factors(nodes | {"slow": many})["slow"]


def test_qualities_multiply() -> None:
    both = {node: {"run_time": q["run_time"], "metric": q["run_time"]} for node, q in timed(a=1, b=1, c=1, s=2).items()}
    assert quality_factors(both)["s"] == pytest.approx(quality_factors(timed(a=1, b=1, c=1, s=2))["s"] ** 2)


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=9), st.floats(0.001, 1_000))
def test_a_liar_slows_nobody_beyond_the_usual_of_the_others(seconds: list[float], claim: float) -> None:
    """Whatever one node claims, a node no slower than all honest ones keeps its worth."""
    honest = timed(**{f"n{place}": each for place, each in enumerate(seconds)})
    fastest = min(honest, key=lambda node: honest[node]["run_time"].log_cost)
    if claim >= min(seconds):
        assert fastest not in quality_factors(honest | timed(liar=claim))


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.1, 10), min_size=3))
def test_the_median_is_of_the_other_nodes(seconds: dict[str, float]) -> None:
    for node, factor in quality_factors(timed(**seconds)).items():
        usual = median(log(each) for other, each in seconds.items() if other != node)
        assert factor == pytest.approx(e ** (-(log(seconds[node]) - usual) * 20 / 22))
