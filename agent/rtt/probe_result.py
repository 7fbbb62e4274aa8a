"""What became of a probe that left this host."""

from typing import NamedTuple


class Answered(NamedTuple):
    rtt_seconds: float


class Lost(NamedTuple):
    """No answer within the timeout."""


class Unusable(NamedTuple):
    """Answered in time, but the wall clock was set meanwhile: neither a latency nor a loss."""


ProbeResult = Answered | Lost | Unusable
