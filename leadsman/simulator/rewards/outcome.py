"""What became of one simulated pod."""

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """What became of a pod. run_seconds: how long it ran, of use when it did not fail."""

    pod_type: str
    node: str
    failed: bool
    run_seconds: float
