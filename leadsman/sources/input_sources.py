"""What a decision is made on, gathered at the moment of a request."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

from leadsman.decision.cache import DecisionCache
from leadsman.decision.delay.views import DelayView, EstimateView
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import TelemetryInputs
from leadsman.decision.workloads import WorkloadIndex
from leadsman.runtime.problem_log import ProblemLog
from leadsman.state.snapshot import Snapshot

T_co = TypeVar("T_co", covariant=True)


class StateSource(Protocol):
    """What is known now. Any object with a current Snapshot will do."""

    @property
    def current(self) -> Snapshot: ...


class PolicySource(Protocol):
    """problem: why the policy on offer is not the current one."""

    @property
    def current(self) -> Policy: ...
    @property
    def problem(self) -> ProblemLog: ...


class Source(Protocol[T_co]):
    """Whatever has a newest view; replaced and never altered."""

    @property
    def current(self) -> T_co: ...


class NoWorkloads(Struct, frozen=True):
    """Where there is no API server to watch: no workload is known."""

    current: WorkloadIndex = WorkloadIndex()


NodeNameGroups = Sequence[Sequence[str]]


class NodeGroups(Protocol):
    """Layer, as "5 ms" → groups of nodes of which every two are that near: all of two or more, or some nodes'."""

    def named(self) -> Mapping[str, NodeNameGroups]: ...
    def among(self, kept: Collection[str]) -> Mapping[str, NodeNameGroups]: ...


class DelayStatus(Protocol):
    """What runs beside the requests, for pages. problems: source of delays → why its newest is not in use."""

    @property
    def groups(self) -> NodeGroups | None: ...
    @property
    def problems(self) -> Mapping[str, str]: ...


class NoDelayStatus(Struct, frozen=True):
    groups: NodeGroups | None = None
    problems: Mapping[str, str] = {}


class NoNodeRoles(Struct, frozen=True):
    """Where there is no API server to watch: no node's label is known."""

    current: Mapping[str, str] = {}


class NoTelemetry(Struct, frozen=True):
    """Where no telemetry policies are followed."""

    current: TelemetryInputs = TelemetryInputs()


class InputSources(Struct, frozen=True):
    """Everything that inputs come from. clock: monotonic seconds, the same as the state's. The rest is optional.

    delays: in the order in which they count, after the agents' reports; one whose current is None has nothing yet.
    roles: node → its label kubernetes.io/role.
    """

    state: StateSource
    policy: PolicySource
    clock: Callable[[], float]
    cache: DecisionCache = field(default_factory=DecisionCache)
    workloads: Source[WorkloadIndex] = NoWorkloads()
    delay_sources: tuple[Source[DelayView | None], ...] = ()
    estimate_source: Source[EstimateView | None] | None = None
    node_roles: Source[Mapping[str, str]] = NoNodeRoles()
    delay_status: DelayStatus = NoDelayStatus()
    telemetry: Source[TelemetryInputs] = NoTelemetry()

    def current_inputs(self) -> DecisionInputs:
        """What each source knows now."""
        delays = tuple(known for source in self.delay_sources if (known := source.current) is not None)
        return DecisionInputs(
            self.state.current,
            self.policy.current,
            self.clock(),
            self.cache,
            self.workloads.current,
            delays,
            None if self.estimate_source is None else self.estimate_source.current,
            node_roles=self.node_roles.current,
            telemetry=self.telemetry.current,
        )
