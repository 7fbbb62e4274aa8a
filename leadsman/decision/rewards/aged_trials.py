"""Ages a node's trials, since the record says only what they were when it was written."""

from leadsman.rewards import reward_updates
from leadsman.rewards.posterior import Trials
from leadsman.rewards.shared_faults import SharedDoubt
from leadsman.state.snapshot import AgedReward

RETRY_HALF_LIVES = (0.6, 2.0, 4.25)
"""A node is tried again so many half-lives after its last failure, by how many failures there were in a row. Sooner
costs failures on nodes that stay broken; later leaves repaired ones empty, and those that failed once by chance."""

_RETRIED_TRIALS = 0.03
"""Says what is left of the failures then: no doubt, but few pods see the node until one did well."""


def faded_trials(aged: AgedReward, now: float) -> Trials:
    """Returns the node's trials as they have faded by `now`."""
    reward = aged.reward
    left = reward_updates.remaining_share(aged.age_seconds(now), reward.half_life_seconds)
    recent = min(reward.recent, reward_updates.MAX_RECENT_TRIALS)
    return Trials(reward.healthy * left, recent * left, reward.failed * left)


def trials_until_retry(aged: AgedReward, now: float) -> Trials:
    """Returns trials that do not fade until the node is tried again, when nearly nothing is left of the failures.

    If each failure faded by itself, a node that failed once after hours of health would be avoided for as long as one
    on which nothing ever ran well.
    """
    trials, age_seconds = faded_trials(aged, now), incident_age_seconds(aged, now)
    if age_seconds is None or not aged.reward.setbacks:
        return trials
    half_life_seconds = aged.reward.half_life_seconds
    if age_seconds >= RETRY_HALF_LIVES[aged.reward.setbacks - 1] * half_life_seconds:
        return trials._replace(failed=min(trials.failed, _RETRIED_TRIALS))
    left = reward_updates.remaining_share(age_seconds, half_life_seconds)
    return trials._replace(recent=trials.recent / left, failed=trials.failed / left)


def trials_since(doubt: SharedDoubt, aged: AgedReward | None, trials: Trials, now: float) -> Trials:
    """Drops successes from before the failures that put the node in doubt, as the question is whether it changed then.
    How many these are is not recorded: at a steady rate, it is what fades until now."""
    if aged is None:
        return trials
    own_age = incident_age_seconds(aged, now)
    if own_age is not None and own_age <= doubt.age_seconds:
        return trials
    before = reward_updates.remaining_share(doubt.age_seconds, aged.reward.half_life_seconds)
    return trials._replace(recent=trials.recent * (1.0 - before))


def incident_age_seconds(aged: AgedReward, now: float) -> float | None:
    """Returns the age of the node's last incident of the type, on the reader's clock; None: there was none."""
    reward = aged.reward
    if reward.last_incident_seconds is None:
        return None
    return max(0.0, reward.at_seconds - reward.last_incident_seconds) + aged.age_seconds(now)
