"""What a record says of a node, hours after it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.rewards.aged_trials import RETRY_HALF_LIVES, incident_age_seconds, trials_until_retry
from leadsman.rewards.posterior import node_posterior
from leadsman.state.records import Reward
from leadsman.state.snapshot import AgedReward

HOUR = 3_600.0


def failed(setbacks: int, half_life_seconds: float = HOUR, times: float = 1.0, recent: float = 0.0) -> Reward:
    return Reward(
        at_seconds=0.0,
        half_life_seconds=half_life_seconds,
        recent=recent,
        failed=times,
        setbacks=setbacks,
        last_incident_seconds=0.0,
    )


def value(reward: Reward, now: float) -> float:
    trials = trials_until_retry(AgedReward(reward, 0.0), now)
    return node_posterior(trials.recent, trials.failed, 0.95).value


@given(setbacks=st.integers(1, 3), half_life_seconds=st.floats(60.0, 86_400.0), times=st.floats(1.0, 1_000.0))
def test_a_node_stays_in_doubt_until_it_is_tried_again_however_often_it_failed(
    setbacks: int, half_life_seconds: float, times: float
) -> None:
    reward = failed(setbacks, half_life_seconds, times)
    retry = RETRY_HALF_LIVES[setbacks - 1] * half_life_seconds
    assert value(reward, 0.99 * retry) == pytest.approx(value(reward, 0.0), abs=0.02)
    assert value(reward, 0.0) < 0.6
    assert value(reward, retry) > 0.98


def test_more_failures_in_a_row_keep_it_away_for_longer() -> None:
    assert list(RETRY_HALF_LIVES) == sorted(RETRY_HALF_LIVES)


def test_success_since_the_failure_lessens_the_doubt() -> None:
    assert value(failed(1, recent=3.0), 60.0) > value(failed(1), 60.0)


def test_the_age_of_an_incident_is_what_the_writer_says_and_what_the_reader_waited() -> None:
    assert incident_age_seconds(AgedReward(Reward(at_seconds=900.0, last_incident_seconds=600.0), 50.0), 70.0) == 320.0
    assert incident_age_seconds(AgedReward(Reward(at_seconds=900.0), 50.0), 70.0) is None
