"""Builds the status of a policy, for `kubectl get taspolicies` and `kubectl wait`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from leadsman.decision.telemetry.model import RefusedPolicy
from leadsman.decision.telemetry.taspolicy import PolicyProblem, TasPolicy

ACCEPTED, ACTIVE = "Accepted", "Active"


class _Condition(NamedTuple):
    kind: str
    holds: bool
    reason: str
    message: str


def build_status(
    used: TasPolicy | None,
    refused: RefusedPolicy | None,
    before: Mapping[str, Any] | None,
    now: str,
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    """The status of a policy, of which at least one version is given.

    used: the version in use.
    refused: the newest version, when it is invalid.
    before: the present status; a condition that has not changed keeps its lastTransitionTime.
    now: RFC 3339.
    unreported: metrics of the policy that no source has now.
    """
    generation = refused.generation if refused else used.generation if used else 0
    problems = [*([refused.problem] if refused else []), *(used.problems if used else ())]
    verdicts = (_accepted(refused, problems), _active(used, refused, unreported))
    return {
        "observedGeneration": generation,
        "conditions": [_condition(verdict, generation, before or {}, now) for verdict in verdicts],
        "problems": [{"field": problem.path, "message": problem.text} for problem in problems],
    }


def _accepted(refused: RefusedPolicy | None, problems: Sequence[PolicyProblem]) -> _Condition:
    if refused:
        return _Condition(ACCEPTED, False, "Invalid", str(refused.problem))
    if problems:
        return _Condition(ACCEPTED, True, "AcceptedInPart", "; ".join(map(str, problems)))
    return _Condition(ACCEPTED, True, "Accepted", "every rule is used")


def _active(used: TasPolicy | None, refused: RefusedPolicy | None, unreported: Sequence[str]) -> _Condition:
    if used is None:
        return _Condition(ACTIVE, False, "Invalid", "no valid version of this policy exists")
    if not used.metrics:
        return _Condition(ACTIVE, False, "NoRules", "no strategy has a rule")
    if set(unreported) >= used.metrics:
        return _Condition(ACTIVE, False, "NoMetrics", f"no node reports {', '.join(sorted(unreported))}")
    if refused:
        return _Condition(
            ACTIVE, True, "LastGoodVersion", f"the newest version is invalid; generation {used.generation} stays in use"
        )
    missing = f"; no node reports {', '.join(sorted(unreported))}" if unreported else ""
    return _Condition(ACTIVE, True, "Active", ", ".join(_in_use(used)) + missing)


def _in_use(policy: TasPolicy) -> Iterator[str]:
    return (name for name, strategy in policy.strategies.items() if strategy.rules)


def _condition(verdict: _Condition, generation: int, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    holds = "True" if verdict.holds else "False"
    previous: Mapping[str, Any] = next(
        (each for each in before.get("conditions") or () if each.get("type") == verdict.kind), {}
    )
    since = previous.get("lastTransitionTime") if previous.get("status") == holds else None
    return {
        "type": verdict.kind,
        "status": holds,
        "reason": verdict.reason,
        "message": verdict.message,
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }
