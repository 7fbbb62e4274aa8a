"""What a record says of a node, hours after it was written."""

import pytest

from leadsman.decision.rewards.aged_trials import (
    RETRY_HALF_LIVES,
    faded_trials,
    incident_age_seconds,
    trials_until_retry,
)
from leadsman.rewards.posterior import node_posterior
from leadsman.state.records import Reward
from leadsman.state.snapshot import AgedReward

HOUR = 3_600.0
RETRY = RETRY_HALF_LIVES * HOUR
AT_ONCE = Reward(at_seconds=0.0, failed=1.0, last_incident_seconds=0.0, half_life_seconds=HOUR)
"""It failed the first pod that it got."""
AFTER_HEALTH = Reward(
    at_seconds=0.0, healthy=50.0, recent=1.8, failed=1.0, last_incident_seconds=0.0, half_life_seconds=HOUR
)
"""It failed one pod after hours of health, of which an incident leaves 1.8 recent trials."""


def value(reward: Reward, now: float) -> float:
    trials = trials_until_retry(AgedReward(reward, 0.0), now)
    return node_posterior(trials.recent, trials.failed, 0.95).value


def test_a_node_that_failed_at_once_stays_in_doubt_until_it_is_tried_again() -> None:
    assert value(AT_ONCE, RETRY - 1.0) == pytest.approx(value(AT_ONCE, 0.0))
    assert value(AT_ONCE, RETRY) > 0.98


def test_a_failure_after_hours_of_health_fades() -> None:
    assert value(AFTER_HEALTH, 0.0) < value(AFTER_HEALTH, HOUR) < value(AFTER_HEALTH, 2 * HOUR)


@pytest.mark.parametrize("hours", [0.0, 1.0, 2.0, 4.0])
def test_a_node_that_failed_at_once_is_never_better_than_one_that_failed_after_health(hours: float) -> None:
    """Faded alone, its value after two hours is 0.92, and 0.90 that of a node of health an hour after its failure."""
    assert value(AT_ONCE, hours * HOUR) < value(AFTER_HEALTH, 0.0)


@pytest.mark.parametrize("failed", [1.0, 3.0, 1_000.0])
def test_the_wait_is_the_same_however_often_it_failed(failed: float) -> None:
    often = Reward(at_seconds=0.0, failed=failed, last_incident_seconds=0.0, half_life_seconds=HOUR)
    assert value(often, RETRY - 1.0) < 0.6
    assert value(often, RETRY) > 0.98


def test_success_since_the_failure_ends_the_wait() -> None:
    well = Reward(at_seconds=600.0, recent=1.0, failed=1.0, last_incident_seconds=0.0, half_life_seconds=HOUR)
    aged = AgedReward(well, 0.0)
    assert trials_until_retry(aged, HOUR) == faded_trials(aged, HOUR)


def test_the_wait_follows_the_records_half_life() -> None:
    short = Reward(at_seconds=0.0, failed=1.0, last_incident_seconds=0.0, half_life_seconds=60.0)
    assert value(short, RETRY_HALF_LIVES * 60.0) > 0.98


def test_the_age_of_an_incident_is_what_the_writer_says_and_what_the_reader_waited() -> None:
    assert incident_age_seconds(AgedReward(Reward(at_seconds=900.0, last_incident_seconds=600.0), 50.0), 70.0) == 320.0
    assert incident_age_seconds(AgedReward(Reward(at_seconds=900.0), 50.0), 70.0) is None
