"""Gathers what a decision is made on, at the moment of a request."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

from leadsman.decision.cache import DecisionCache
from leadsman.decision.inputs import (
    DecisionInputs,
    DelayView,
    DeviceInputs,
    EstimateView,
    LastRoundTrips,
    NodeLabels,
    SelfHealing,
    TelemetryInputs,
    WorkloadIndex,
)
from leadsman.decision.policy import Policy
from leadsman.published.backups import PodBackup
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.source import Source
from leadsman.state.snapshot import Snapshot

T = TypeVar("T")

_ABSENT = DecisionInputs(Snapshot(), Policy(), 0.0)
"""What decisions know of a source that is not there."""


class PolicySource(Protocol):
    """Has the policy in use.

    problem: why the newest policy is not the one in use.
    """

    @property
    def current(self) -> Policy: ...
    @property
    def problem(self) -> ProblemLog: ...


NodeNameGroups = Sequence[Sequence[str]]


class NodeGroups(Protocol):
    """Groups of nodes in which every two are within a delay: layer, as "5 ms" → its groups."""

    def named(self) -> Mapping[str, NodeNameGroups]:
        """All groups of two nodes or more."""

    def among(self, nodes: Collection[str]) -> Mapping[str, NodeNameGroups]:
        """The groups reduced to `nodes`."""


class DelayStatus(Protocol):
    """What the pages show of the delay sources.

    groups: None until they are made.
    problems: delay source → why its newest data are not in use.
    implausible: reporter → the nodes that it reports an implausible delay to.
    contradicted: node → what it reports that others contradict, as a sentence.
    """

    @property
    def groups(self) -> NodeGroups | None: ...
    @property
    def problems(self) -> Mapping[str, str]: ...
    @property
    def implausible(self) -> Mapping[str, Sequence[str]]: ...
    @property
    def contradicted(self) -> Mapping[str, str]: ...


class NoDelayStatus(Struct, frozen=True):
    """Stands for the delay sources when there are none."""

    groups: NodeGroups | None = None
    problems: Mapping[str, str] = {}
    implausible: Mapping[str, Sequence[str]] = {}
    contradicted: Mapping[str, str] = {}


class SelfHealingSource(Source[SelfHealing], Protocol):
    """Has the newest view of self-healing. last_round_trips: dead or suspect node → its last delays."""

    @property
    def last_round_trips(self) -> Mapping[str, LastRoundTrips]: ...


class BackupSource(Protocol):
    """Says which backup a pod has."""

    def of_pod(self, uid: str) -> PodBackup | None:
        """None: nothing is known of it."""


class NoBackups:
    """Stands for the backups when they are not followed."""

    def of_pod(self, uid: str) -> PodBackup | None:
        return None


class DeviceSource(Source[DeviceInputs], Protocol):
    """Has the devices, and knows which pods have theirs for certain."""

    def problem(self) -> str:
        """Why the view cannot be relied on for what pods were given; "" when it can."""

    def is_settled(self, uid: str) -> bool:
        """Whether the pod is seen bound, or ended."""


class NoDeviceSource(Struct, frozen=True):
    """Stands for the devices when they are not followed."""

    current: DeviceInputs = DeviceInputs()

    def problem(self) -> str:
        return ""

    def is_settled(self, uid: str) -> bool:
        return False


class InputSources(Struct, frozen=True):
    """Every source of DecisionInputs. Only the first three are required; None: there is none of that kind.

    clock: monotonic seconds, on the clock of the state's ages.
    delay_sources: in the order in which they count, after the agents' reports; one whose current is None has no data.
    node_roles: node → its label kubernetes.io/role.
    node_labels: followed while the policy names plugins.
    backups: for explanations; decisions do not see it.
    """

    state: Source[Snapshot]
    policy: PolicySource
    clock: Callable[[], float]
    cache: DecisionCache = field(default_factory=DecisionCache)
    workloads: Source[WorkloadIndex] | None = None
    delay_sources: tuple[Source[DelayView | None], ...] = ()
    estimate_source: Source[EstimateView | None] | None = None
    node_roles: Source[Mapping[str, str]] | None = None
    delay_status: DelayStatus = NoDelayStatus()
    telemetry: Source[TelemetryInputs] | None = None
    self_healing: SelfHealingSource | None = None
    backups: BackupSource = NoBackups()
    node_labels: Source[NodeLabels | None] | None = None
    devices: DeviceSource = NoDeviceSource()

    def current_inputs(self) -> DecisionInputs:
        """The newest value of each source."""
        delays = tuple(view for source in self.delay_sources if (view := source.current) is not None)
        return DecisionInputs(
            self.state.current,
            self.policy.current,
            self.clock(),
            self.cache,
            _current(self.workloads, _ABSENT.workloads),
            delays,
            _current(self.estimate_source, None),
            node_roles=_current(self.node_roles, _ABSENT.node_roles),
            telemetry=_current(self.telemetry, _ABSENT.telemetry),
            self_healing=_current(self.self_healing, _ABSENT.self_healing),
            last_round_trips=(self.self_healing or _ABSENT).last_round_trips,
            node_labels=_current(self.node_labels, None),
            devices=self.devices.current,
        )


def _current(source: Source[T] | None, absent: T) -> T:
    return absent if source is None else source.current
