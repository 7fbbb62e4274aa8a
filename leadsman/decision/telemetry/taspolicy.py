"""TASPolicy, telemetry.intel.com/v1alpha1, as a typed value. `document` reads it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

TASPOLICY_GROUP, TASPOLICY_VERSION, TASPOLICY_PLURAL, TASPOLICY_KIND = (
    "telemetry.intel.com",
    "v1alpha1",
    "taspolicies",
    "TASPolicy",
)

LABEL_PREFIX = "telemetry.aware.scheduling."
VIOLATING = "violating"


class PolicyProblem(Struct, frozen=True):
    """What is wrong with one field of a policy. path: as in `kubectl explain`, with indices."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Operator(StrEnum):
    """All strict."""

    EQUALS = "Equals"
    LESS_THAN = "LessThan"
    GREATER_THAN = "GreaterThan"


class LogicalOperator(StrEnum):
    ANY_OF = "anyOf"
    ALL_OF = "allOf"


class Scoring(StrEnum):
    """How scheduleonmetric makes scores of the metric: ours, the original has none.

    RANK: in equal steps from the worst value to the best.
    PROPORTIONAL: by how far the value is from the two; one outlier then makes all other values alike.
    """

    RANK = "rank"
    PROPORTIONAL = "proportional"


class FailMode(StrEnum):
    """What a metric without a current value means: ours, the original knows open only.

    open: no rule on it is violated. closed: a dontschedule rule on it is, and a mark that stands stays.
    """

    OPEN = "open"
    CLOSED = "closed"


class RuleLabel(NamedTuple):
    """key: without the prefix. value: "" is one."""

    key: str
    value: str


class Rule(Struct, frozen=True):
    """target: a whole number. labels: those that a node can carry."""

    metric: str
    operator: Operator
    target: int = 0
    labels: tuple[RuleLabel, ...] = ()

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.target}"


class Strategy(Struct, frozen=True):
    rules: tuple[Rule, ...]
    logic: LogicalOperator = LogicalOperator.ANY_OF
    scoring: Scoring = Scoring.RANK

    def __str__(self) -> str:
        return (" and " if self.logic is LogicalOperator.ALL_OF else " or ").join(map(str, self.rules))


class PolicyKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class TasPolicy(Struct, frozen=True):
    """max_age_seconds: None: the sources' own limit."""

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
        found = ((name, getattr(self, name)) for name in STRATEGY_NAMES)
        return {name: strategy for name, strategy in found if strategy is not None}

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(rule.metric for strategy in self.strategies.values() for rule in strategy.rules)


STRATEGY_NAMES = ("dontschedule", "scheduleonmetric", "deschedule", "labeling")
