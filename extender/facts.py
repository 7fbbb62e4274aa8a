"""What a decision is made on, gathered at the moment of a request."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from clusterstate.snapshot import Snapshot
from decision.memo import Memo
from decision.model import Facts
from decision.places import Places
from decision.policy import Policy
from decision.sources import Delays, Estimates

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


class Sources(Struct, frozen=True):
    """Everything that facts come from. clock: monotonic seconds, the same as the state's. The rest is optional.

    delays: in the order in which they count, after the agents' reports; one whose current is None has nothing yet.
    """

    state: State
    policy: PolicySource
    clock: Callable[[], float]
    memo: Memo = field(default_factory=Memo)
    places: Source[Places] = Without()
    delays: tuple[Source[Delays | None], ...] = ()
    estimates: Source[Estimates | None] | None = None

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
        )
