"""When a plugin is asked: after three failures in a row not for a minute, then again. Pure."""

from msgspec import Struct

FAILURES_UNTIL_OFF = 3
OFF_SECONDS = 60.0


class Health(Struct, frozen=True):
    """failures: in a row. off_until: monotonic seconds. problem: the last failure's; "" while there is none."""

    failures: int = 0
    off_until: float = 0.0
    problem: str = ""

    def is_off(self, now: float) -> bool:
        return now < self.off_until

    def failed(self, problem: str, now: float) -> "Health":
        failures = self.failures + 1
        return Health(failures, now + OFF_SECONDS if failures >= FAILURES_UNTIL_OFF else 0.0, problem)

    def answered(self) -> "Health":
        return self if self.failures == 0 else Health()
