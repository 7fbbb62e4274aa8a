"""Defines the policy: what an operator may choose about decisions. examples/policy.yaml explains each default."""

import hashlib
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from leadsman.decision import yaml_document

Weight = Annotated[float, Meta(ge=0, le=100)]
"""A weight counts relative to the others of its group; 0 switches off."""

Celsius = Annotated[float, Meta(ge=-50, le=200)]


LayerMs = Annotated[float, Meta(ge=0, le=60_000)]
"""Largest round trip between any two nodes of a group."""


class PolicyError(ValueError):
    """The policy cannot be used; the text names the path in the document, what is there and what is allowed."""


class Statistic(StrEnum):
    """Says which value of a probe window counts as the delay."""

    P50 = "p50"
    P95 = "p95"
    MIN = "min"


class EstimateMode(StrEnum):
    """Says how an estimated RTT counts where no RTT is measured."""

    ACCEPT = "accept"
    """It counts as if it were measured; without an estimate the node passes."""
    UPPER_BOUND = "upper-bound"
    """The upper end of its interval must be within the bound."""
    REJECT = "reject"
    """It does not count: only measured RTTs do."""


class PolicySection(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all parts of a policy. It makes a misspelt field an error, never a silent default."""


class DelayPolicy(PolicySection, frozen=True):
    """Says how delays are compared with bounds.

    sites: names in delay sources that are no nodes of the cluster, and that bounds may be to.
    """

    statistic: Statistic = Statistic.P50
    estimate: EstimateMode = EstimateMode.UPPER_BOUND
    sites: tuple[str, ...] = ()


class NearestPolicy(PolicySection, frozen=True):
    """Prefers nodes near the targets of a pod's bounds."""

    weight: Weight = 2.0


class CloudPolicy(PolicySection, frozen=True):
    """Prefers nodes labelled kubernetes.io/role=cloud for pods without a bound."""

    weight: Weight = 2.0


class PressureWeights(PolicySection, frozen=True):
    """Weighs the pressure metrics against each other."""

    cpu: Weight = 2.0
    memory: Weight = 2.0
    io: Weight = 2.0
    load: Weight = 1.0
    temperature: Weight = 1.0


class TemperatureRange(PolicySection, frozen=True):
    """Sets the temperatures of no pressure (up to `low`) and of full pressure (from `high`)."""

    low: Celsius = 60.0
    high: Celsius = 95.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low {self.low:g} must be below high {self.high:g}")


class PressurePolicy(PolicySection, frozen=True):
    """Avoids nodes under hardware pressure."""

    weight: Weight = 1.0
    weights: PressureWeights = PressureWeights()
    temperature_celsius: TemperatureRange = TemperatureRange()


class ScheduleOnMetricPolicy(PolicySection, frozen=True):
    """Weighs the score of telemetry policies.

    weight: high, because a pod that names a policy asks for its order; the other scores then break ties.
    """

    weight: Weight = 50.0


class RewardRule(StrEnum):
    """Says how a node's past with a pod type becomes a value."""

    COMPARED = "compared"
    """A node is scored by its recent successes and failures, compared with the other nodes. docs/rewards.md"""
    KUBERL = "kuberl"
    """A node is scored by kubeRL's moving average, as its document states it."""


class RewardsPolicy(PolicySection, frozen=True):
    """Avoids nodes on which pods of the type fail.

    weight: more than the others together, which then decide among the nodes without doubt.
    """

    weight: Weight = 10.0
    rule: RewardRule = RewardRule.COMPARED


class BreakerPolicy(PolicySection, frozen=True):
    """Refuses a node, for a while, to a pod type that keeps failing there.

    failures: from how many on, fading; 0 switches off.
    blame_ratio: how probable it must be that the node is at fault.
    hold_seconds: since the last incident.
    """

    failures: Annotated[float, Meta(ge=0, le=1_000)] = 0.0
    blame_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.9
    hold_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 600.0


class OnFailure(StrEnum):
    """Says what becomes of the nodes when a filter plugin fails."""

    PLUGIN = "plugin"
    """Nodes pass or are refused as the plugin says; they pass until it could be loaded once."""
    PASS = "pass"
    REFUSE = "refuse"


PluginName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?\Z")]


class PluginPolicy(PolicySection, frozen=True):
    """Loads a score or filter of another package: docs/plugins.md.

    name: of its entry point. deadline_ms: of one answer. memory_mib: of its process, address space.
    """

    name: PluginName
    deadline_ms: Annotated[float, Meta(ge=1, le=100)] = 50.0
    memory_mib: Annotated[int, Meta(ge=64, le=4096)] = 512


class FilterPluginPolicy(PluginPolicy, frozen=True):
    """Loads a filter of another package."""

    on_failure: OnFailure = OnFailure.PLUGIN


class ScorePluginPolicy(PluginPolicy, frozen=True):
    """Loads a score of another package, with its weight."""

    weight: Weight = 1.0


class PluginsPolicy(PolicySection, frozen=True):
    """Names the plugins that are loaded; no other is."""

    filters: Annotated[tuple[FilterPluginPolicy, ...], Meta(max_length=8)] = ()
    scores: Annotated[tuple[ScorePluginPolicy, ...], Meta(max_length=8)] = ()

    @property
    def are_used(self) -> bool:
        """Tells whether the policy names any plugin."""
        return bool(self.filters or self.scores)


class DeviceScorePolicy(PolicySection, frozen=True):
    """Keeps whole devices free, and keeps nodes with SR-IOV for pods that need it."""

    weight: Weight = 2.0


class AcceleratorPolicy(PolicySection, frozen=True):
    """Weighs the score of pods that can do without an accelerator.

    weight: more than pressure and fit together, because giving one or not is what it decides.
    """

    weight: Weight = 5.0


class DeviceTaintEffect(StrEnum):
    """Says what a taint on an unhealthy device does."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"
    """It also evicts the pods that use the device."""


class DeviceHealthPolicy(PolicySection, frozen=True):
    """Says when the controller keeps pods off a device: docs/devices.md.

    effect: of the taint on it.
    xids: errors of NVIDIA's driver that are the device's fault: those for which NVIDIA's catalogue asks for a reset, a
        reboot or a repair (docs.nvidia.com/deploy/xid-errors), but for what its device plugin calls a program's (109).
    uncorrectable_errors: ECC errors since the driver was loaded from which on a device is faulty.
    throttled_ratio: share of the time throttled by heat or the power supply from which on it is.
    hold_seconds: how long it must be faulty before it is marked.
    heal_seconds: how long it must be healthy before the mark is removed.
    max_marked_ratio: share of all devices that may be marked; one always may.
    """

    effect: DeviceTaintEffect = DeviceTaintEffect.NO_SCHEDULE
    xids: tuple[int, ...] = (46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158)
    uncorrectable_errors: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    throttled_ratio: Annotated[float, Meta(gt=0, le=1)] = 0.9
    hold_seconds: Annotated[float, Meta(ge=10, le=86_400)] = 60.0
    heal_seconds: Annotated[float, Meta(ge=60, le=604_800)] = 1_800.0
    max_marked_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.1


class DevicesPolicy(PolicySection, frozen=True):
    """Says how devices count.

    virtual_functions: extended resources that are SR-IOV virtual functions, such as openshift.io/sriov_net; () switches
        bandwidth off.
    threshold_mbit: bandwidth from which on a pod needs a virtual function.
    accelerators: extended resources that are accelerators, for pods that can do without one.
    gain_threshold: how many times faster a pod's type must run with one, to get one.
    gain_min_samples: runs on either side below which `gain_prior` decides.
    gain_explore_ratio: share of the pods that then try the side with fewer runs.
    health: when the controller keeps pods off a device.
    """

    virtual_functions: tuple[str, ...] = ()
    threshold_mbit: Annotated[float, Meta(ge=0, le=1_000_000_000)] = 1_000.0
    accelerators: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
    gain_threshold: Annotated[float, Meta(ge=0, le=1_000)] = 1.5
    gain_min_samples: Annotated[float, Meta(ge=0, le=1_000_000)] = 5.0
    gain_prior: Annotated[float, Meta(ge=0, le=1_000)] = 1.0
    gain_explore_ratio: Annotated[float, Meta(ge=0, le=0.5)] = 0.1
    health: DeviceHealthPolicy = DeviceHealthPolicy()

    @property
    def threshold_bits(self) -> int:
        """Returns the threshold in bit/s."""
        return int(self.threshold_mbit * 1_000_000)


class ScoresPolicy(PolicySection, frozen=True):
    """Sets the weight and settings of each score."""

    nearest: NearestPolicy = NearestPolicy()
    cloud: CloudPolicy = CloudPolicy()
    pressure: PressurePolicy = PressurePolicy()
    scheduleonmetric: ScheduleOnMetricPolicy = ScheduleOnMetricPolicy()
    rewards: RewardsPolicy = RewardsPolicy()
    devices: DeviceScorePolicy = DeviceScorePolicy()
    accelerator: AcceleratorPolicy = AcceleratorPolicy()


class Policy(PolicySection, frozen=True):
    """Everything that an operator may choose about decisions."""

    delay: DelayPolicy = DelayPolicy()
    scores: ScoresPolicy = ScoresPolicy()
    initial_layers: tuple[LayerMs, ...] = ()
    breaker: BreakerPolicy = BreakerPolicy()
    plugins: PluginsPolicy = PluginsPolicy()
    devices: DevicesPolicy = DevicesPolicy()


def parse(text: str) -> Policy:
    """Parses a policy from YAML; what the text does not mention keeps its default. Raises PolicyError.

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
        raise PolicyError(": ".join(yaml_document.validation_fault(error, plain, Policy))) from error


def digest(policy: Policy) -> str:
    """Returns 12 hexadecimal digits that tell policies apart in logs and explanations."""
    return hashlib.sha256(msgspec.json.encode(policy)).hexdigest()[:12]
