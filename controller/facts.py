"""What a plan is made on, gathered at the moment of a round."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from clusterstate.snapshot import Snapshot
from decision.memo import Memo
from decision.model import Facts
from decision.policy import Policy
from decision.telemetry.known import Telemetry

T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """Whatever has a newest view; replaced and never altered."""

    @property
    def current(self) -> T_co: ...


class Sources(Struct, frozen=True):
    """state: what the agents report. policy: as the extender's. clock: monotonic seconds, the same as the state's."""

    state: Source[Snapshot]
    telemetry: Source[Telemetry]
    policy: Policy
    clock: Callable[[], float]
    memo: Memo = field(default_factory=Memo)

    def facts(self) -> Facts:
        return Facts(self.state.current, self.policy, self.clock(), self.memo, telemetry=self.telemetry.current)
