"""Types a TASPolicy (telemetry.intel.com/v1alpha1) as plain values; `taspolicy_document` parses it."""

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
    """Says what is wrong with one field of a policy. path: as in `kubectl explain`, with indices."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


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
