"""What a controller plans, as people and other processes read it: what it does, what it holds back, and why."""

from collections.abc import Sequence

from msgspec import Struct


class PlannedAction(Struct, frozen=True):
    """What is done.

    kind: what is done, such as `label node`.
    object: to which node, pod or device.
    """

    kind: str
    object: str
    reason: str


class WithheldAction(Struct, frozen=True):
    """What would be done, and is not.

    reason: why it would be. why: why it is not.
    since: Unix seconds at which the leader saw it first.
    """

    kind: str
    object: str
    reason: str
    why: str
    since: float


class PlanSummary(Struct, frozen=True):
    """What a controller plans at one moment.

    at: Unix seconds.
    is_leader: whether it acts. Another one plans nothing.
    is_dry_run: whether it would act and writes nothing.
    stopped: why a policy changes nothing.
    unplanned: what has no plan yet, and why.
    left_out: how many more actions and withheld actions there are.
    """

    at: float
    is_leader: bool
    is_dry_run: bool
    actions: Sequence[PlannedAction] = ()
    withheld: Sequence[WithheldAction] = ()
    stopped: Sequence[str] = ()
    unplanned: Sequence[str] = ()
    left_out: int = 0
