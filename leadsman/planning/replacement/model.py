"""What re-placement is told, what it remembers and what it does. Times are Unix seconds: they outlive a process."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.planning.moves.model import EndedMove, MoveAction, MoverSettings
from leadsman.published.moves import MoverState


class ReplacementSettings(MoverSettings, frozen=True, kw_only=True):
    """What an operator chooses.

    mends: whether pods are moved for a bound that they left and for a pending pod. If not, only plans are carried out.
    hold_seconds: how long a delay must be over its bound, or a pod be pending without room, before anything is done.
    per_minute: most moves that begin within a minute.
    look_again_seconds: between two searches for one pod that has no fix.
    """

    mends: bool = True
    hold_seconds: float = 60.0
    per_minute: int = 2
    look_again_seconds: float = 30.0


class NoFix(Struct, frozen=True):
    """Nothing can be done for a pod.

    bound: in words: `edge-1 within 25 ms`.
    delay_ms: from where the pod is, or for a pending pod from the nearest candidate; None: unknown.
    source, age_seconds: of the delay; None: it does not age.
    why: the same words while the cause is the same.
    nearest: the node that comes closest; "": none does. misses_by: what it lacks.
    remedy: what would fix it.
    """

    pod_uid: str
    namespace: str
    name: str
    bound: str
    delay_ms: float | None
    source: str
    age_seconds: float | None
    why: str
    nearest: str
    misses_by: str
    remedy: str

    def __str__(self) -> str:
        delay = "unknown" if self.delay_ms is None else f"{self.delay_ms:.3g} ms"
        age = "" if self.age_seconds is None else f", {self.age_seconds:.0f} s ago"
        by = f" (by {self.source}{age})" if self.source else ""
        nearest = f" Nearest is node {self.nearest}: {self.misses_by}." if self.nearest else ""
        return f"bound {self.bound}, delay {delay}{by}: {self.why}.{nearest} To fix it, {self.remedy}."


class Trouble(Struct, frozen=True):
    """A pod whose delay is over its bound, or that is pending without room.

    since: when that was first seen.
    look_at: nothing is searched for it before then.
    report: what the last search found; None: nothing was searched yet, or there is a fix that waits for a budget.
    """

    since: float
    look_at: float = 0.0
    report: NoFix | None = None


class ReplacementMemory(Struct, frozen=True):
    """What the next plan begins with.

    troubles: UID → what is wrong with the pod; forgotten with the process.
    """

    state: MoverState = MoverState()
    troubles: Mapping[str, Trouble] = MappingProxyType({})


class ReplacementPlan(Struct, frozen=True):
    """What to do now, in this order, once `memory.state` is written.

    ended: the moves that this plan ended.
    waiting: UID → why a pod for which there is a fix waits.
    """

    actions: tuple[MoveAction, ...]
    memory: ReplacementMemory
    ended: tuple[EndedMove, ...] = ()
    waiting: Mapping[str, str] = MappingProxyType({})

    @property
    def no_fix(self) -> Mapping[str, NoFix]:
        """UID → report, of the pods for which nothing can be done."""
        troubles = self.memory.troubles.items()
        return {uid: trouble.report for uid, trouble in troubles if trouble.report is not None}
