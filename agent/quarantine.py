"""Decides when a collector or plugin that exceeded its deadline may run again: after a pause that doubles. Pure."""

from msgspec import Struct

FIRST_PAUSE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 300.0


class Quarantine(Struct, frozen=True):
    """The pause of what was late. overruns: in a row. began_seconds, not_before_seconds: monotonic."""

    overruns: int
    began_seconds: float
    not_before_seconds: float


def after_overrun(before: Quarantine | None, began_seconds: float, now: float) -> Quarantine:
    """Returns the quarantine after one more overrun of a run that began at began_seconds."""
    count = before.overruns + 1 if before else 1
    pause = min(FIRST_PAUSE_SECONDS * 2 ** min(count - 1, 10), MAX_PAUSE_SECONDS)
    return Quarantine(count, began_seconds, now + pause)


def is_over(quarantine: Quarantine, now: float, running: bool) -> bool:
    """Tells whether it may run again. While its thread is still running it is never started a second time."""
    return not running and now >= quarantine.not_before_seconds
