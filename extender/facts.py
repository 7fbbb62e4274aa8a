"""What a decision is made on, gathered at the moment of a request."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field

from clusterstate.snapshot import Snapshot
from decision.memo import Memo
from decision.model import Facts
from decision.policy import Policy


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


class Sources(Struct, frozen=True):
    """Everything that facts come from. clock: monotonic seconds, the same as the state's."""

    state: State
    policy: PolicySource
    clock: Callable[[], float]
    memo: Memo = field(default_factory=Memo)

    def facts(self) -> Facts:
        return Facts(self.state.current, self.policy.current, self.clock(), self.memo)
