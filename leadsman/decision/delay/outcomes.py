"""How a node may stand to a bound, the best first, and the reason that each refusal is given."""

from enum import IntEnum


class Outcome(IntEnum):
    """What one pair of nodes means for one bound. Of several pairs the smallest is the best."""

    PASSES = 0
    """A measured round trip keeps the bound, or an estimate that may count does."""
    ACCEPTED_UNKNOWN = 1
    """Neither is known, and the pod or the policy accepts that."""
    UNMEASURED = 2
    PROVISIONAL = 3
    """Measured by a node that has not reported since this process started."""
    STALE = 4
    """Measured by a node that stopped reporting."""
    IMPLAUSIBLE = 5
    """Measured by one of the two only, as less than what other nodes report of both allows."""
    ESTIMATE_UNSURE = 6
    """The bound lies within the interval of the estimate."""
    ESTIMATE_OVER = 7
    """The interval of the estimate lies above the bound."""
    NO_REPLY = 8
    """Probed lately, and every probe was lost. Never outvoted by an estimate."""
    MEASURED_OVER = 9

    @property
    def refuses(self) -> bool:
        return self > Outcome.ACCEPTED_UNKNOWN


_REASONS = {
    Outcome.UNMEASURED: "delay to {} was not measured",
    Outcome.PROVISIONAL: "delay to {} was read at start and not confirmed by a new report",
    Outcome.STALE: "delay to {} is stale",
    Outcome.IMPLAUSIBLE: "delay to {} is implausible: only one end reports it, and lower than other nodes allow",
    Outcome.ESTIMATE_UNSURE: "estimated delay to {} may be over {:g} ms",
    Outcome.ESTIMATE_OVER: "estimated delay to {} over {:g} ms",
    Outcome.NO_REPLY: "no reply between the node and {}",
    Outcome.MEASURED_OVER: "delay to {} over {:g} ms",
}


def reason(outcome: Outcome, target: str, bound_ms: float) -> str:
    """The same words for every node with this outcome, as kube-scheduler counts equal reasons. "" when it passes."""
    return _REASONS.get(outcome, "").format(target, bound_ms)
