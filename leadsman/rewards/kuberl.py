"""Implements kubeRL's rule: r ← 0.9 r + 0.1 R.

R is 1 for running, 0.5 for a restart after more than MTTF without one, 0 for an earlier failure and for the phase
Failed. "Running" is earned by time, once for each MTTF of health, so that repeated events change nothing.
Source: github.com/IBM/kube-safe-scheduler at b7e6990, kubeRL/README.md and kubeRL/rl-monitor/main.go.
"""

from leadsman.rewards.incident_causes import IncidentCause

MTTF_SECONDS = 600.0
RUNNING, RESTARTED, FAILED = 1.0, 0.5, 0.0

_WEIGHT = 0.1


def moving_average(reward: float, outcome: float) -> float:
    """Returns the reward, 0..1, after one outcome, 0..1."""
    return (1 - _WEIGHT) * reward + _WEIGHT * outcome


def failure_outcome(cause: IncidentCause, since_last_seconds: float | None) -> float:
    """Returns the outcome of an incident. since_last_seconds: since the previous one; None: it is the first."""
    if cause is IncidentCause.FAILED_PHASE:
        return FAILED
    return RESTARTED if since_last_seconds is None or since_last_seconds > MTTF_SECONDS else FAILED


def healthy_stretches(from_seconds: float, to_seconds: float) -> int:
    """Counts how many times a pod whose health grew from one age to the other earned "running"."""
    return int(to_seconds // MTTF_SECONDS) - int(from_seconds // MTTF_SECONDS)


def score(reward: float) -> int:
    """Returns the score, 0..10, rounded down as by kubeRL's extender."""
    return int(reward * 10)
