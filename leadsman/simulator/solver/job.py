"""What the solver's process is asked, and how both sides write."""

import msgspec
from msgspec import Struct

from leadsman.planning.optimise.problem import Choices, Problem


class Job(Struct, frozen=True):
    """A search. start: it is never worse. work: CP-SAT's deterministic time; seconds: a cap on that of the wall."""

    problem: Problem
    start: Choices
    seed: int
    work: float
    seconds: float


def encode(message: Struct) -> bytes:
    """As the other side decodes it, by the type of the message."""
    return msgspec.msgpack.encode(message)
