"""Starts the solver's process and reads its answers: each better plan while it searches, and the last one."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from leadsman.planning.optimise.choices import Choices, Problem, score
from leadsman.planning.optimise.search import Ended, Found

T = TypeVar("T")

GRACE_SECONDS = 0.3
"""How long after its time the process may tell of what it has, before it is killed."""


class Job(Struct, frozen=True):
    """A search. start: it is never worse. work: CP-SAT's deterministic time; seconds: a cap on that of the wall."""

    problem: Problem
    start: Choices
    seed: int
    work: float
    seconds: float


class SolverFailed(RuntimeError):
    """The solver's process ended without an answer; standard error has its last words."""


def solver_installed() -> bool:
    """Tells whether the extra `plan` is here. Nothing of it is imported for the answer."""
    return find_spec("ortools") is not None


def run(job: Job, progress: Callable[[Found], None] = lambda _: None) -> Found:
    """The best that the process found in the job's seconds, in which it ends whatever it does.

    progress: called with each better plan.
    """
    at = score(job.problem, job.start)
    if at is None:
        raise ValueError("the first choices do not fit on their nodes")
    found, killed = Found(job.start, at, 0, 0.0, Ended.SECONDS), threading.Event()
    command = [sys.executable, "-m", "leadsman.simulator.solver.child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None

        def end() -> None:
            killed.set()
            child.kill()

        timer = threading.Timer(job.seconds + GRACE_SECONDS, end)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(encode(job))
                child.stdin.close()
            for line in child.stdout:
                found = decode(line, Found)
                progress(found)
            last = child.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        finally:
            timer.cancel()
    if child.returncode and not killed.is_set():
        raise SolverFailed(f"the solver ended with exit code {child.returncode}: {' '.join(last)}")
    return found


def encode(message: Struct) -> bytes:
    """As the other side decodes it, by the type of the message: one line of JSON."""
    return msgspec.json.encode(message, enc_hook=np.ndarray.tolist)


def decode(data: bytes, of: type[T]) -> T:
    """Returns what `encode` made of it."""
    return msgspec.json.decode(data, type=of, dec_hook=_array)


def _array(_: type, rows: Any) -> Any:
    return np.array(rows, np.int64)
