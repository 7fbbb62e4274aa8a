"""What the operator may choose about decisions, and how it is read. examples/policy.yaml explains each default."""

import hashlib
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document

Weight = Annotated[float, Meta(ge=0, le=100)]
"""Relative to the other weights beside it; 0 switches off."""

Celsius = Annotated[float, Meta(ge=-50, le=200)]


LayerMs = Annotated[float, Meta(ge=0, le=60_000)]
"""Largest round trip between any two nodes of a group."""


class PolicyError(ValueError):
    """The policy cannot be used. Names the place in the document, what stands there and what is allowed."""


class Statistic(StrEnum):
    """Which value of a probe window counts as the delay."""

    P50 = "p50"
    P95 = "p95"
    MIN = "min"


class Direction(StrEnum):
    """Whose measurement of a pair counts."""

    WORST = "worst"
    """The larger of the fresh ones."""
    FORWARD = "forward"
    """The one by the node that the pod names."""
    BACKWARD = "backward"
    """The one by the node asked about."""


class EstimateMode(StrEnum):
    """What an estimate may say for a pair that nobody measured."""

    ACCEPT = "accept"
    """It counts as if it were measured, and without one the node passes."""
    UPPER_BOUND = "upper-bound"
    """The upper end of its interval must keep the bound."""
    REJECT = "reject"
    """Nothing: only measured delays count."""


class PolicySection(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all parts of a policy: a misspelt field is an error, never a silent default."""


class DelayPolicy(PolicySection, frozen=True):
    statistic: Statistic = Statistic.P50
    direction: Direction = Direction.WORST
    estimate: EstimateMode = EstimateMode.UPPER_BOUND


class NearestPolicy(PolicySection, frozen=True):
    weight: Weight = 2.0


class CloudPolicy(PolicySection, frozen=True):
    """nodes, zones: names of cloud nodes, * for any characters, besides those labelled kubernetes.io/role=cloud."""

    weight: Weight = 2.0
    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()


class PressureWeights(PolicySection, frozen=True):
    cpu: Weight = 2.0
    memory: Weight = 2.0
    io: Weight = 2.0
    load: Weight = 1.0
    temperature: Weight = 1.0


class TemperatureRange(PolicySection, frozen=True):
    """No pressure up to `low`, full pressure from `high`."""

    low: Celsius = 60.0
    high: Celsius = 95.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")


class PressurePolicy(PolicySection, frozen=True):
    weight: Weight = 1.0
    weights: PressureWeights = PressureWeights()
    temperature_celsius: TemperatureRange = TemperatureRange()


class ScheduleOnMetricPolicy(PolicySection, frozen=True):
    """weight: high, as a pod that names a policy asks for its order; the other scores then break ties."""

    weight: Weight = 50.0


class RewardRule(StrEnum):
    """What a node's past with a type of pod is worth."""

    COMPARED = "compared"
    """Its recent successes and failures, beside those on the other nodes. docs/rewards.md"""
    KUBERL = "kuberl"
    """kubeRL's moving average, as its document states it."""


class RewardsPolicy(PolicySection, frozen=True):
    """weight: above the others together, which then decide among the nodes that are beyond doubt."""

    weight: Weight = 10.0
    rule: RewardRule = RewardRule.COMPARED


class BreakerPolicy(PolicySection, frozen=True):
    """Refuses a node to a type of pod that keeps failing there, for a while. failures: fading, 0 switches off.

    blame_ratio: how probable it must be that the node is at fault. hold_seconds: since the last incident.
    """

    failures: Annotated[float, Meta(ge=0, le=1_000)] = 0.0
    blame_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.9
    hold_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 600.0


class ScoresPolicy(PolicySection, frozen=True):
    nearest: NearestPolicy = NearestPolicy()
    cloud: CloudPolicy = CloudPolicy()
    pressure: PressurePolicy = PressurePolicy()
    scheduleonmetric: ScheduleOnMetricPolicy = ScheduleOnMetricPolicy()
    rewards: RewardsPolicy = RewardsPolicy()


class Policy(PolicySection, frozen=True):
    delay: DelayPolicy = DelayPolicy()
    scores: ScoresPolicy = ScoresPolicy()
    initial_layers: tuple[LayerMs, ...] = ()
    breaker: BreakerPolicy = BreakerPolicy()


def parse(text: str) -> Policy:
    """The policy of a YAML text; what it does not mention keeps its default. Raises PolicyError.

    An empty text is refused: it is a file cut short or a wrong one more often than the choice of all defaults.
    """
    try:
        plain = yaml_document.load(text)
    except yaml_document.BadDocument as error:
        raise PolicyError(str(error)) from error
    if plain is None:
        raise PolicyError("$: the file is empty; write {} to choose every default")
    try:
        return msgspec.convert(plain, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(yaml_document.validation_message(error, plain, Policy)) from error


def digest(policy: Policy) -> str:
    """12 hexadecimal digits that tell policies apart in logs and explanations."""
    return hashlib.sha256(msgspec.json.encode(policy)).hexdigest()[:12]
