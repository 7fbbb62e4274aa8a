"""Updates a node's record of one pod type: successful and failed trials that fade with time.

A trial is one stretch of health of `STRETCH_SECONDS`. It is credited as time passes, never by event, so that repeated
events change nothing. A longer life earns more, but less and less: failures become rarer with age like a Weibull hazard
of shape 0.7 [1], so what an old pod survives says little about how the next one starts.

Every function returns a new Reward, as of `now`. Times are the writer's own Unix seconds.

[1] Schroeder, Gibson: A large-scale study of failures in high-performance computing systems, DSN 2006: shape 0.7-0.8.
"""

from math import log

from msgspec import structs

from leadsman.rewards import kuberl
from leadsman.rewards.incident_causes import BLAMES_NOBODY, IncidentCause
from leadsman.state.records import Quality, Reward

HALF_LIFE_SECONDS = 3_600.0
"""Evidence weighs half after this time: long enough to avoid a bad node for hours, short enough to find out the same
day that it was repaired."""

STRETCH_SECONDS = kuberl.MTTF_SECONDS

MAX_RECENT_TRIALS = 12.0
"""Recent trials above this are not kept, so that few failures count against a node that was good for months."""

PROOF_TRIALS = 0.2
"""This much health since the last failure shows that pods run here: four of them past 10 s, or one past a minute."""

MAX_SETBACKS = 3

SOUND_SECONDS = 60.0
"""A pod that lived for so long ran well."""

LATE_PODS = 15
"""A failure is late when at least so many pods ran well before it. Of one in fifty by chance, a quarter is early."""

MAX_TOLD_FAILURES = 4.0
"""A node tells of no more early and late failures than this, so that none outvotes the others."""

MAX_TRIALS = 1_000_000.0
"""A record holds no more trials than this."""

_NOTICED_SECONDS = 2.0
"""An incident may be noticed this long after the restart that followed it."""

_SHAPE = 0.7
_MAX_SAMPLES = 20.0
_MAX_LOG = 1_000.0


def new_reward(now: float, half_life_seconds: float = HALF_LIFE_SECONDS) -> Reward:
    """Returns a record without evidence."""
    return Reward(at_seconds=now, half_life_seconds=half_life_seconds)


def decay(reward: Reward, now: float) -> Reward:
    """Fades the evidence to `now`. A clock that went back changes no evidence, and no incident is later than now."""
    left, last = remaining_share(now - reward.at_seconds, reward.half_life_seconds), reward.last_incident_seconds
    last = last if last is None else min(last, now)
    if left == 1.0:
        return structs.replace(reward, at_seconds=now, last_incident_seconds=last)
    qualities = {name: structs.replace(each, samples=each.samples * left) for name, each in reward.qualities.items()}
    return structs.replace(
        reward,
        at_seconds=now,
        healthy=reward.healthy * left,
        recent=reward.recent * left,
        failed=reward.failed * left,
        qualities={name: each for name, each in qualities.items() if each.samples > 1e-3},
        last_incident_seconds=last,
    )


def remaining_share(age_seconds: float, half_life_seconds: float) -> float:
    """Returns the share of evidence that is left, 0..1."""
    return float(0.5 ** (max(0.0, age_seconds) / half_life_seconds))


def earned_trials(from_seconds: float, to_seconds: float) -> float:
    """Returns the trials earned by one pod whose health grew from one age to the other; 1 for the first stretch."""
    return _exposure(to_seconds) - _exposure(from_seconds)


def credit_health(reward: Reward, from_seconds: float, to_seconds: float, now: float) -> Reward:
    """Credits one pod that stayed healthy. from_seconds: health credited before, 0 after a start or restart."""
    if to_seconds <= from_seconds:
        return decay(reward, now)
    earned, stretches = earned_trials(from_seconds, to_seconds), kuberl.healthy_stretches(from_seconds, to_seconds)
    sound_pods = int(from_seconds < SOUND_SECONDS <= to_seconds)
    return _healthier(reward, earned, stretches, sound_pods, now, now - to_seconds)


def credit_completion(reward: Reward, healthy_seconds: float, now: float) -> Reward:
    """Credits one pod that completed, a whole trial however short. healthy_seconds: of it, credited before."""
    if healthy_seconds >= STRETCH_SECONDS:
        return decay(reward, now)
    earned, sound_pods = 1.0 - earned_trials(0.0, healthy_seconds), int(healthy_seconds < SOUND_SECONDS)
    return _healthier(reward, earned, 1, sound_pods, now, now - healthy_seconds)


def record_incident(reward: Reward, cause: IncidentCause, now: float) -> Reward:
    """Records one incident. One that blames nobody is counted and changes nothing else."""
    fresh = decay(reward, now)
    incidents = reward.incidents | {cause.value: reward.incidents.get(cause.value, 0) + 1}
    noted = structs.replace(fresh, incidents=incidents, last_cause=cause.value, last_incident_seconds=now)
    if cause in BLAMES_NOBODY:
        return structs.replace(noted, last_incident_seconds=fresh.last_incident_seconds)
    last = fresh.last_incident_seconds
    early, late = _early_and_late(fresh)
    outcome = kuberl.failure_outcome(cause, None if last is None else now - last)
    return structs.replace(
        noted,
        failed=min(MAX_TRIALS, fresh.failed + 1.0),
        # Health from before says nothing: the question is whether the node changed at this moment.
        recent=0.0,
        setbacks=_setbacks(fresh),
        sound_pods=0,
        early=early,
        late=late,
        kuberl=kuberl.moving_average(reward.kuberl, outcome),
    )


def _setbacks(before: Reward) -> int:
    """Counts the failures in a row with this one. A first failure before any health counts two: that is how pods fail
    on a node that was bad from the start, and seldom by chance."""
    return 1 if before.recent >= PROOF_TRIALS else min(MAX_SETBACKS, max(1, before.setbacks) + 1)


def _early_and_late(before: Reward) -> tuple[float, float]:
    """Counts this failure as early or late. One that no sound pod came before says nothing of how often pods fail."""
    if not before.sound_pods:
        return before.early, before.late
    is_late = before.sound_pods >= LATE_PODS
    early, late = before.early + (not is_late), before.late + is_late
    kept = min(MAX_TOLD_FAILURES, early + late)
    return kept * (early / (early + late)), kept * (late / (early + late))


def record_quality(reward: Reward, name: str, cost: float, now: float) -> Reward:
    """Records one observation of a quality, as a finished pod's run time or a pod's metric; lower is better.

    A cost without a logarithm changes nothing.
    """
    fresh = decay(reward, now)
    if not 0.0 < cost < float("inf"):
        return fresh
    before = fresh.qualities.get(name)
    samples = min(_MAX_SAMPLES, (before.samples if before else 0.0) + 1.0)
    mean = before.log_cost if before else 0.0
    after = Quality(mean + (max(-_MAX_LOG, min(_MAX_LOG, log(cost))) - mean) / samples, samples)
    return structs.replace(fresh, qualities=fresh.qualities | {name: after})


def _healthier(reward: Reward, earned: float, stretches: int, sound_pods: int, now: float, since: float) -> Reward:
    """Returns the reward with the evidence of a pod's health.

    since: when this health began. Before the last incident, it says nothing about how pods start now.
    """
    fresh, rule = decay(reward, now), reward.kuberl
    for _ in range(stretches):
        rule = kuberl.moving_average(rule, kuberl.RUNNING)
    last = reward.last_incident_seconds
    old = last is not None and since < last - _NOTICED_SECONDS
    return structs.replace(
        fresh,
        healthy=min(MAX_TRIALS, fresh.healthy + earned),
        recent=min(MAX_RECENT_TRIALS, fresh.recent + (0.0 if old else earned)),
        sound_pods=min(LATE_PODS, fresh.sound_pods + (0 if old else sound_pods)),
        kuberl=rule,
    )


def _exposure(age_seconds: float) -> float:
    return float((max(0.0, age_seconds) / STRETCH_SECONDS) ** _SHAPE)
