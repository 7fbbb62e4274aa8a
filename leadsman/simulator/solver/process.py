"""Starts the solver's process and reads its answer: what it is asked, and how both sides write."""

import subprocess
import sys
from importlib.util import find_spec

import msgspec
from msgspec import Struct

from leadsman.planning.optimise.choices import Choices, Problem
from leadsman.planning.optimise.search import Found

# What the solver's process is asked, and how both sides write.


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


# Starts the solver's process and reads its answer.


class SolverFailed(RuntimeError):
    """The solver's process ended without an answer; standard error has its last words."""


def solver_installed() -> bool:
    """Whether the extra `plan` is here. Nothing of it is imported for the answer."""
    return find_spec("ortools") is not None


def run(job: Job, *, quiet: bool) -> Found:
    """The answer to the job. quiet: no progress on standard error."""
    command = [sys.executable, "-m", "leadsman.simulator.solver.child"]
    stderr = subprocess.PIPE if quiet else None
    ended = subprocess.run(command, input=encode(job), stdout=subprocess.PIPE, stderr=stderr, check=False)
    if ended.returncode:
        last = (ended.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
        raise SolverFailed(f"the solver ended with exit code {ended.returncode}: {' '.join(last) or 'see above'}")
    return msgspec.msgpack.decode(ended.stdout, type=Found)
