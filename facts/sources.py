"""What a decision is made on, gathered at the moment of a request."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

from clusterstate.snapshot import Snapshot
from decision.memo import Memo
from decision.model import Facts
from decision.places import Places
from decision.policy import Policy
from decision.sources import Delays, Estimates
from decision.telemetry.known import Telemetry

T_co = TypeVar("T_co", covariant=True)


class State(Protocol):
    """What is known now. Any object with a current Snapshot will do."""

    @property
    def current(self) -> Snapshot: ...


class PolicySource(Protocol):
    """problem: why the policy on offer is not the current one; "" when it is."""

    @property
    def current(self) -> Policy: ...
    @property
    def problem(self) -> str: ...


class Source(Protocol[T_co]):
    """Whatever has a newest view; replaced and never altered."""

    @property
    def current(self) -> T_co: ...


class Without(Struct, frozen=True):
    """Where there is no API server to watch: no workload is known."""

    current: Places = Places()


Names = Sequence[Sequence[str]]


class NodeGroups(Protocol):
    """Layer, as "5 ms" → groups of nodes of which every two are that near: all of two or more, or some nodes'."""

    def named(self) -> Mapping[str, Names]: ...
    def among(self, kept: Collection[str]) -> Mapping[str, Names]: ...


class Beside(Protocol):
    """What runs beside the requests, for pages. problems: source of delays → why its newest is not in use."""

    @property
    def groups(self) -> NodeGroups | None: ...
    @property
    def problems(self) -> Mapping[str, str]: ...


class Nothing(Struct, frozen=True):
    groups: NodeGroups | None = None
    problems: Mapping[str, str] = {}


class NoRoles(Struct, frozen=True):
    """Where there is no API server to watch: no node's label is known."""

    current: Mapping[str, str] = {}


class NoTelemetry(Struct, frozen=True):
    """Where no telemetry policies are followed."""

    current: Telemetry = Telemetry()


class Sources(Struct, frozen=True):
    """Everything that facts come from. clock: monotonic seconds, the same as the state's. The rest is optional.

    delays: in the order in which they count, after the agents' reports; one whose current is None has nothing yet.
    roles: node → its label kubernetes.io/role.
    """

    state: State
    policy: PolicySource
    clock: Callable[[], float]
    memo: Memo = field(default_factory=Memo)
    places: Source[Places] = Without()
    delays: tuple[Source[Delays | None], ...] = ()
    estimates: Source[Estimates | None] | None = None
    roles: Source[Mapping[str, str]] = NoRoles()
    beside: Beside = Nothing()
    telemetry: Source[Telemetry] = NoTelemetry()

    def facts(self) -> Facts:
        """What each source knows now."""
        delays = tuple(known for source in self.delays if (known := source.current) is not None)
        return Facts(
            self.state.current,
            self.policy.current,
            self.clock(),
            self.memo,
            self.places.current,
            delays,
            None if self.estimates is None else self.estimates.current,
            roles=self.roles.current,
            telemetry=self.telemetry.current,
        )
