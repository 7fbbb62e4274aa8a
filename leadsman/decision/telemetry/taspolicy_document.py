"""Parses a TASPolicy of the API into a TasPolicy.

Everything that the CRD of Telemetry Aware Scheduling accepts is accepted. What has a meaning and cannot be parsed
raises BadTasPolicy; what can be parsed and has no effect (an unknown strategy, a label that no node can carry) is a
PolicyProblem of a policy in use.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from leadsman.decision.inputs import RefusedPolicy
from leadsman.decision.telemetry.taspolicy import (
    LABEL_PREFIX,
    STRATEGY_NAMES,
    VIOLATING,
    FailMode,
    LogicalOperator,
    Operator,
    PolicyProblem,
    Rule,
    RuleLabel,
    Scoring,
    Strategy,
    TasPolicy,
)
from leadsman.runtime import decode_errors
from leadsman.runtime.decode_errors import DecodeFault

MAX_AGE_SECONDS = 86_400

MAX_SPEC_BYTES = 64 << 10
"""Of a spec in JSON: fifty times that of the largest example of Telemetry Aware Scheduling."""

MAX_LABELS = 64
"""Labels in all rules of a labeling strategy. Each is 100 bytes in an annotation of every node, which the API server
limits to 256 KiB with all others: 5,000 of them made it refuse each patch of a node, and with it other policies'."""


class BadTasPolicy(ValueError):
    """The object is not a valid TASPolicy. Names the field's path, what is there and what is allowed."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.problem = PolicyProblem(path, text)


class WholeNumber(int):
    """An integer, or a number that equals one: the API server makes 10 of 10.0."""


_INT64 = range(-(2**63), 2**63)


class _Metadata(Struct):
    name: str
    namespace: str = "default"
    generation: int = 0


class _Metrics(Struct, rename="camel"):
    max_age_seconds: Annotated[float, Meta(gt=0, le=MAX_AGE_SECONDS)] | None = None
    fail_mode: FailMode = FailMode.OPEN


class _Rule(Struct):
    metricname: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_-]+\Z")]
    operator: Operator
    target: WholeNumber = WholeNumber(0)
    labels: list[str] | None = None


class _Strategy(Struct, rename="camel"):
    rules: list[_Rule]
    logical_operator: LogicalOperator = LogicalOperator.ANY_OF
    scoring: Scoring = Scoring.RANK
    policy_name: Any = None


class _Spec(Struct):
    metrics: Any = None
    strategies: Any = None


_TOP_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")

_ALLOWED = {
    "metricname": "letters, digits, _ and -",
    "operator": "Equals, LessThan or GreaterThan",
    "target": "a whole number of 64 bits",
    "logicalOperator": "anyOf or allOf",
    "scoring": "rank or proportional",
    "failMode": "open or closed",
    "maxAgeSeconds": f"a number of seconds, more than 0 and at most {MAX_AGE_SECONDS}",
    "rules": "a list of rules",
    "labels": "a list of texts such as key=value",
}


def parse_taspolicy(plain: Mapping[str, Any]) -> TasPolicy:
    """plain: the API object. BadTasPolicy."""
    metadata = _converted(plain.get("metadata"), _Metadata, "metadata")
    check_spec_size(len(msgspec.json.encode(plain.get("spec"))))
    spec = _mapping(plain.get("spec") or {}, "spec")
    metrics = _converted(spec.get("metrics") or {}, _Metrics, "spec.metrics")
    given = _mapping(spec.get("strategies") or {}, "spec.strategies")
    read = {
        name: _converted(given[name], _Strategy, f"spec.strategies.{name}") for name in STRATEGY_NAMES if name in given
    }
    _check_label_count(read.get("labeling"))
    problems = [
        *_unknown_fields(plain, spec, given),
        *_missing_strategies(spec, given),
        *_unknown_strategies(given),
        *_unused_rules(read),
        *_mixed_operators(read),
        *_label_problems(metadata.name, read),
    ]
    return TasPolicy(
        namespace=metadata.namespace,
        name=metadata.name,
        **{name: _strategy(name, strategy, metadata.name) for name, strategy in read.items()},
        max_age_seconds=metrics.max_age_seconds,
        fail_mode=metrics.fail_mode,
        generation=metadata.generation,
        problems=tuple(problems),
    )


def check_spec_size(size_bytes: int) -> None:
    """size_bytes: in JSON. BadTasPolicy when that is more than MAX_SPEC_BYTES."""
    if size_bytes > MAX_SPEC_BYTES:
        text = f"has {size_bytes:,} bytes in JSON, allowed are {MAX_SPEC_BYTES:,}; make several policies"
        raise BadTasPolicy("spec", text)


def _check_label_count(labeling: _Strategy | None) -> None:
    count = sum(len(rule.labels or ()) for rule in labeling.rules) if labeling else 0
    if count > MAX_LABELS:
        text = f"have {count:,} labels, allowed are {MAX_LABELS}; make several policies"
        raise BadTasPolicy("spec.strategies.labeling.rules", text)


def _mapping(plain: object, path: str) -> Mapping[str, Any]:
    if not isinstance(plain, Mapping):
        raise BadTasPolicy(path, f"got {_shown(plain)}, allowed is an object")
    return plain


def _converted(plain: Any, kind: type[Any], path: str) -> Any:
    try:
        return msgspec.convert(plain, kind, dec_hook=_whole_number)
    except msgspec.ValidationError as error:
        raise _bad(decode_errors.explain(error), plain, path) from error


def _whole_number(_: type[Any], value: Any) -> WholeNumber:
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(whole) is not int or whole not in _INT64:
        raise ValueError("no whole number of 64 bits")
    return WholeNumber(whole)


_MISSING = re.compile(r"missing required field (.*)")


def _bad(fault: DecodeFault, plain: Any, path: str) -> BadTasPolicy:
    """The fault as the field's path, what stands there and what is allowed."""
    inner = fault.path.removeprefix("$")
    if missing := _MISSING.search(fault.what):
        return BadTasPolicy(f"{path}{inner}.{missing[1]}", f"missing, allowed is {_allowed(missing[1])}")
    steps = decode_errors.steps(fault.path)
    for step in steps:
        plain = plain[step]
    last = next((step for step in reversed(steps) if isinstance(step, str)), "")
    return BadTasPolicy(path + inner, f"got {_shown(plain)}, allowed is {_allowed(last)}")


def _allowed(field: str) -> str:
    return _ALLOWED.get(field, "an object" if not field else "a text")


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _strategy(name: str, read: _Strategy, policy: str) -> Strategy:
    """Without rules where no node could carry its label."""
    usable = name != "deschedule" or is_valid_mark(policy)
    rules = tuple(_rule(rule, policy) for rule in read.rules) if usable else ()
    return Strategy(rules, read.logical_operator, read.scoring)


def _rule(read: _Rule, policy: str) -> Rule:
    labels = tuple(RuleLabel(*text.split("=", 1)) for text in read.labels or [] if not label_problem(policy, text))
    return Rule(read.metricname, read.operator, int(read.target), labels)


# apimachinery/pkg/util/validation/validation.go: IsQualifiedName's name part, and IsValidLabelValue.
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LONGEST_PREFIX = 253


def label_problem(policy: str, text: str) -> str:
    """Says why no node can carry this label of the policy; "" when one can."""
    key, equals, value = text.partition("=")
    if not equals:
        return "has no value, allowed is key=value"
    if not _NAME.fullmatch(key):
        return "the key is no label name: at most 63 letters, digits, -, _ and ., a letter or digit at both ends"
    if value and not _NAME.fullmatch(value):
        return "the value is no label value: at most 63 letters, digits, -, _ and ., a letter or digit at both ends"
    if len(LABEL_PREFIX + policy) > _LONGEST_PREFIX:
        return f"the label's prefix has more than {_LONGEST_PREFIX} characters, the policy's name is too long"
    return ""


def is_valid_mark(policy: str) -> bool:
    """Tells whether a node can carry the label `<policy>=violating`."""
    return bool(_NAME.fullmatch(policy))


def _unknown_fields(
    plain: Mapping[str, Any], spec: Mapping[str, Any], strategies: Mapping[str, Any]
) -> Iterator[PolicyProblem]:
    """A misspelt field: the API server drops it with no more than a warning, and then a default counts."""
    yield from _not_among(_TOP_FIELDS, plain, "")
    yield from _not_among(_Spec.__struct_encode_fields__, spec, "spec.")
    yield from _not_among(_Metrics.__struct_encode_fields__, spec.get("metrics") or {}, "spec.metrics.")
    for name, strategy in ((name, strategies[name]) for name in STRATEGY_NAMES if name in strategies):
        path = f"spec.strategies.{name}."
        yield from _not_among(_Strategy.__struct_encode_fields__, strategy, path)
        for number, rule in enumerate(strategy["rules"]):
            yield from _not_among(_Rule.__struct_encode_fields__, rule, f"{path}rules[{number}].")


def _not_among(fields: Sequence[str], given: Mapping[str, Any], path: str) -> Iterator[PolicyProblem]:
    for name in (str(name)[:60] for name in given if name not in fields):
        if name in STRATEGY_NAMES:
            yield PolicyProblem(f"{path}{name}", f"is ignored here; move it to spec.strategies.{name}")
        else:
            yield PolicyProblem(f"{path}{name}", f"is ignored; known fields are {', '.join(fields)}")


def _missing_strategies(spec: Mapping[str, Any], strategies: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    if not strategies:
        state = "empty" if "strategies" in spec else "missing"
        yield PolicyProblem("spec.strategies", f"is {state}, so the policy does nothing")


def _unknown_strategies(given: Mapping[str, Any]) -> Iterator[PolicyProblem]:
    for name in given:
        if name not in STRATEGY_NAMES:
            known = ", ".join(STRATEGY_NAMES)
            yield PolicyProblem(f"spec.strategies.{name}", f"is ignored; known strategies are {known}")


def _unused_rules(read: Mapping[str, _Strategy]) -> Iterator[PolicyProblem]:
    for name, strategy in read.items():
        if not strategy.rules:
            yield PolicyProblem(f"spec.strategies.{name}.rules", "is empty, so the strategy does nothing")
    if "scheduleonmetric" in read and len(read["scheduleonmetric"].rules) > 1:
        yield PolicyProblem(
            "spec.strategies.scheduleonmetric.rules[1]", "is ignored; only the first rule orders the nodes"
        )


def _mixed_operators(read: Mapping[str, _Strategy]) -> Iterator[PolicyProblem]:
    """One label under rules with different operators: no largest and no smallest metric decides."""
    operators: dict[str, Operator] = {}
    for number, rule in enumerate(read["labeling"].rules if "labeling" in read else []):
        for key in {text.partition("=")[0] for text in rule.labels or []}:
            if operators.setdefault(key, rule.operator) is not rule.operator:
                path = f"spec.strategies.labeling.rules[{number}].operator"
                yield PolicyProblem(
                    path, f"label {key} is set by rules with different operators; the first violated rule wins"
                )


def _label_problems(policy: str, read: Mapping[str, _Strategy]) -> Iterator[PolicyProblem]:
    if "deschedule" in read and not is_valid_mark(policy):
        yield PolicyProblem(
            "metadata.name",
            f"{policy[:60]}={VIOLATING} is not a valid label, so deschedule does nothing; shorten the policy name to 63"
            " characters",
        )
    for number, rule in enumerate(read["labeling"].rules if "labeling" in read else []):
        for position, text in enumerate(rule.labels or []):
            if why := label_problem(policy, text):
                yield PolicyProblem(
                    f"spec.strategies.labeling.rules[{number}].labels[{position}]", f"{_shown(text)} {why}"
                )


# Builds the status of a policy, for `kubectl get taspolicies` and `kubectl wait`.

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
