"""kubeRL's rule, as documented."""

import pytest

from leadsman.rewards import kuberl
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.rewards.reward_updates import credit_health, new_reward, record_incident

T0 = 1_700_000_000.0


def crashed(events: int, every_seconds: float) -> float:
    reward = new_reward(T0)
    for event in range(events):
        reward = record_incident(reward, IncidentCause.CRASH, T0 + event * every_seconds)
    return reward.kuberl


@pytest.mark.parametrize(
    ("events", "score"), [(1, 9), (2, 8), (3, 7), (5, 6), (7, 5), (10, 3), (15, 2), (22, 1)]
)  # fmt: skip
def test_the_documented_sequence_of_crashes(events: int, score: int) -> None:
    reward = crashed(events, 10.0)
    assert kuberl.score(reward) == score
    assert reward == pytest.approx(0.95 * 0.9 ** (events - 1), abs=1e-6)


def test_a_restart_after_more_than_mttf_counts_half_whatever_the_second_of_the_minute() -> None:
    """kubeRL compared seconds of the minute, so that 660 s were none."""
    assert crashed(2, 660.0) == pytest.approx(0.9 * 0.95 + 0.05, abs=1e-6)
    assert crashed(2, 600.0) == pytest.approx(0.9 * 0.95, abs=1e-6)


def test_a_failed_phase_counts_nothing_however_long_it_took() -> None:
    assert record_incident(new_reward(T0), IncidentCause.FAILED_PHASE, T0).kuberl == pytest.approx(0.9, abs=1e-6)


def test_running_is_earned_once_a_stretch() -> None:
    low = record_incident(new_reward(T0), IncidentCause.CRASH, T0)
    reward = low
    for age in range(0, 1_200, 10):
        reward = credit_health(reward, age, age + 10, T0 + age + 10)
    assert reward.kuberl == pytest.approx(1 - 0.05 * 0.9**2, abs=1e-6)


@pytest.mark.parametrize(("outcome", "after"), [(1.0, 0.91), (0.5, 0.86), (0.0, 0.81)])
def test_an_outcome_weighs_a_tenth(outcome: float, after: float) -> None:
    assert kuberl.moving_average(0.9, outcome) == pytest.approx(after, abs=1e-6)
