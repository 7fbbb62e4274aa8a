"""Types a TASPolicy (telemetry.intel.com/v1alpha1) as plain values, parses it from the API's object, and builds its
status."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document

TASPOLICY_GROUP, TASPOLICY_VERSION, TASPOLICY_PLURAL, TASPOLICY_KIND = (
    "telemetry.intel.com",
    "v1alpha1",
    "taspolicies",
    "TASPolicy",
)

LABEL_PREFIX = "telemetry.aware.scheduling."
VIOLATING = "violating"


class PolicyProblem(Struct, frozen=True):
    """Says what is wrong with one field of a policy. path: as in `kubectl explain`, with indices."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class RefusedPolicy(Struct, frozen=True):
    """A policy whose newest version cannot be used. generation: of that version."""

    problem: PolicyProblem
    generation: int = 0


class Operator(StrEnum):
    """Says how a rule compares a value with its target; strictly."""

    EQUALS = "Equals"
    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"


class LogicalOperator(StrEnum):
    """Says how many rules of a strategy must be violated."""

    ANY_OF = "anyOf"
    ALL_OF = "allOf"


class Scoring(StrEnum):
    """Says how scheduleonmetric turns the metric into scores. Telemetry Aware Scheduling has no such field.

    RANK: in equal steps from the worst value to the best.
    PROPORTIONAL: by how far the value is from the two; one outlier then makes all other values alike.
    """

    RANK = "rank"
    PROPORTIONAL = "proportional"


class FailMode(StrEnum):
    """Says what a metric without a current value means. Telemetry Aware Scheduling has only OPEN.

    OPEN: no rule on it is violated.
    CLOSED: a dontschedule rule on it is violated, and a present mark stays.
    """

    OPEN = "open"
    CLOSED = "closed"


class RuleLabel(NamedTuple):
    """A label that a labeling rule sets. key: without the prefix. value: may be ""."""

    key: str
    value: str


class Rule(Struct, frozen=True):
    """Compares a metric with a target. labels: only those that a node can carry."""

    metric: str
    operator: Operator
    target: int = 0
    labels: tuple[RuleLabel, ...] = ()

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.target}"


class Strategy(Struct, frozen=True):
    """The rules of one strategy of a policy, and how they combine."""

    rules: tuple[Rule, ...]
    logic: LogicalOperator = LogicalOperator.ANY_OF
    scoring: Scoring = Scoring.RANK

    def __str__(self) -> str:
        return (" and " if self.logic is LogicalOperator.ALL_OF else " or ").join(map(str, self.rules))


class PolicyKey(NamedTuple):
    """Identifies a policy by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class TasPolicy(Struct, frozen=True):
    """A telemetry policy as decisions use it.

    max_age_seconds: how long a value counts; None: the source's own limit.
    generation: of the API object.
    problems: what in it has no effect.
    """

    namespace: str
    name: str
    dontschedule: Strategy | None = None
    scheduleonmetric: Strategy | None = None
    deschedule: Strategy | None = None
    labeling: Strategy | None = None
    max_age_seconds: float | None = None
    fail_mode: FailMode = FailMode.OPEN
    generation: int = 0
    problems: tuple[PolicyProblem, ...] = ()

    @property
    def key(self) -> PolicyKey:
        return PolicyKey(self.namespace, self.name)

    @property
    def strategies(self) -> Mapping[str, Strategy]:
        """Maps each strategy that the policy has by its name."""
        every = ((name, getattr(self, name)) for name in STRATEGY_NAMES)
        return {name: strategy for name, strategy in every if strategy is not None}

    @property
    def metrics(self) -> frozenset[str]:
        """Returns the metrics of all rules."""
        return frozenset(rule.metric for strategy in self.strategies.values() for rule in strategy.rules)


STRATEGY_NAMES = ("dontschedule", "scheduleonmetric", "deschedule", "labeling")


# Parses an object of the API into a TasPolicy.
#
# Everything that the CRD of Telemetry Aware Scheduling accepts is accepted. What has a meaning and cannot be parsed
# raises BadTasPolicy; what can be parsed and has no effect (an unknown strategy, a label that no node can carry) is a
# PolicyProblem of a policy in use.

MAX_AGE_SECONDS = 86_400

MAX_SPEC_BYTES = 64 << 10
"""A spec may have this size in JSON: fifty times that of the largest example of Telemetry Aware Scheduling."""

MAX_LABELS = 64
"""Labels in all rules of a labeling strategy. Each is 100 bytes in an annotation of every node, which the API server
limits to 256 KiB with all others: 5,000 of them made it refuse each patch of a node, and with it other policies'."""


class BadTasPolicy(ValueError):
    """The object is not a valid TASPolicy; the text names the field's path, what is there and what is allowed."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.problem = PolicyProblem(path, text)


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
    target: int = 0
    labels: list[str] | None = None


class _Strategy(Struct, rename="camel"):
    rules: list[_Rule]
    logical_operator: LogicalOperator = LogicalOperator.ANY_OF
    scoring: Scoring = Scoring.RANK
    policy_name: Any = None


class _Strategies(Struct):
    dontschedule: _Strategy | None = None
    scheduleonmetric: _Strategy | None = None
    deschedule: _Strategy | None = None
    labeling: _Strategy | None = None


class _Spec(Struct):
    metrics: _Metrics | None = None
    strategies: _Strategies | None = None


class _Policy(Struct):
    metadata: _Metadata
    spec: _Spec | None = None


def parse_taspolicy(plain: Mapping[str, Any]) -> TasPolicy:
    """Parses an API object. Raises BadTasPolicy."""
    check_spec_size(len(msgspec.json.encode(plain.get("spec"))))
    try:
        document = msgspec.convert(plain, _Policy)
    except msgspec.ValidationError as error:
        path, text = yaml_document.validation_fault(error, plain, _Policy)
        raise BadTasPolicy(path.removeprefix("$."), text) from error
    metadata, spec = document.metadata, document.spec or _Spec()
    metrics, strategies = spec.metrics or _Metrics(), spec.strategies or _Strategies()
    read = {name: each for name in STRATEGY_NAMES if (each := getattr(strategies, name)) is not None}
    _check_label_count(strategies.labeling)
    given = (plain.get("spec") or {}).get("strategies") or {}
    problems = [
        *_unused_strategies(given),
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
    """Raises BadTasPolicy when the spec takes more than MAX_SPEC_BYTES. size_bytes: in JSON."""
    if size_bytes > MAX_SPEC_BYTES:
        text = f"has {size_bytes:,} bytes in JSON, allowed are {MAX_SPEC_BYTES:,}; make several policies"
        raise BadTasPolicy("spec", text)


def _check_label_count(labeling: _Strategy | None) -> None:
    count = sum(len(rule.labels or ()) for rule in labeling.rules) if labeling else 0
    if count > MAX_LABELS:
        text = f"have {count:,} labels, allowed are {MAX_LABELS}; make several policies"
        raise BadTasPolicy("spec.strategies.labeling.rules", text)


def _strategy(name: str, read: _Strategy, policy: str) -> Strategy:
    """Reads a strategy; it has no rules where no node could carry its label."""
    usable = name != "deschedule" or is_valid_mark(policy)
    rules = []
    for each in read.rules if usable else ():
        carried = [text for text in each.labels or () if not label_problem(policy, text)]
        labels = tuple(RuleLabel(*text.split("=", 1)) for text in carried)
        rules.append(Rule(each.metricname, each.operator, each.target, labels))
    return Strategy(tuple(rules), read.logical_operator, read.scoring)


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


def _unused_strategies(given: Iterable[str]) -> Iterator[PolicyProblem]:
    if not given:
        yield PolicyProblem("spec.strategies", "is missing or empty, so the policy does nothing")
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
    """Yields labels under rules with different operators: no largest and no smallest metric decides."""
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
                    f"spec.strategies.labeling.rules[{number}].labels[{position}]", f"{text[:60]!r} {why}"
                )


# Builds the status of a policy, for `kubectl get taspolicies` and `kubectl wait`.

ACCEPTED, ACTIVE = "Accepted", "Active"


_Condition = tuple[str, bool, str, str]
"""Kind, whether it holds, reason and message."""


def build_status(
    used: TasPolicy | None,
    refused: RefusedPolicy | None,
    before: Mapping[str, Any] | None,
    now: str,
    unreported: Sequence[str] = (),
) -> dict[str, Any]:
    """Builds the status of a policy, of which at least one version is given.

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
        return ACCEPTED, False, "Invalid", str(refused.problem)
    if problems:
        return ACCEPTED, True, "AcceptedInPart", "; ".join(map(str, problems))
    return ACCEPTED, True, "Accepted", "every rule is used"


def _active(used: TasPolicy | None, refused: RefusedPolicy | None, unreported: Sequence[str]) -> _Condition:
    if used is None:
        return ACTIVE, False, "Invalid", "no valid version of this policy exists"
    if not used.metrics:
        return ACTIVE, False, "NoRules", "no strategy has a rule"
    if set(unreported) >= used.metrics:
        return ACTIVE, False, "NoMetrics", f"no node reports {', '.join(sorted(unreported))}"
    if refused:
        stays = f"the newest version is invalid; generation {used.generation} stays in use"
        return ACTIVE, True, "LastGoodVersion", stays
    missing = f"; no node reports {', '.join(sorted(unreported))}" if unreported else ""
    in_use = ", ".join(name for name, strategy in used.strategies.items() if strategy.rules)
    return ACTIVE, True, "Active", in_use + missing


def _condition(verdict: _Condition, generation: int, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    kind, holds, reason, message = verdict
    status = "True" if holds else "False"
    conditions = before.get("conditions")  # of a CRD that may not be ours
    known = [each for each in conditions if isinstance(each, Mapping)] if isinstance(conditions, list) else []
    previous = next((each for each in known if each.get("type") == kind), {})
    since = previous.get("lastTransitionTime") if previous.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or now,
    }
