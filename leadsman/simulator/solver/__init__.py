"""Solves the problems of `plan optimise`, `plan fit` and `simulate placement` with OR-Tools, the extra `plan`.

OR-Tools takes seconds to import, so it is imported when the first question is asked.
"""

import signal
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from leadsman.planning.capacity.count import PackingSolver
from leadsman.planning.capacity.packing import Packing
from leadsman.planning.capacity.packing import Problem as PackingProblem
from leadsman.planning.optimise.choices import Choices, Ended, Found, Problem, score


def is_installed() -> bool:
    """Tells whether the extra `plan` is installed, without importing any of it."""
    return find_spec("ortools") is not None


def optimise(
    problem: Problem, start: Choices, seed: int, work: float, seconds: float, progress: Callable[[Found], None]
) -> Found:
    """Returns choices never worse than `start`, as `search.search` finds them; the best so far when the seconds are
    over, whatever it does then. For the main thread alone."""
    at = score(problem, start)
    if at is None:
        raise ValueError("the first choices do not fit on their nodes")
    best = Found(start, at, 0, 0.0, Ended.SECONDS)

    def tell(found: Found) -> None:
        nonlocal best
        best = found
        progress(found)

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        from leadsman.simulator.solver import search

        if search.is_too_fine(problem):
            return Found(start, at, 0, 0.0, Ended.TOO_FINE)
        return search.search(problem, start, seed, work, seconds, tell)
    except TimeoutError:
        return best
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def packing_solver() -> PackingSolver | None:
    """Returns the exact solver of `plan fit`; None: the extra `plan` is not installed."""

    def exactly(
        problem: PackingProblem, least: int, most: int, refused: Sequence[Packing]
    ) -> tuple[Packing | None, int]:
        from leadsman.simulator.solver.cp_sat import exact_packing

        return exact_packing(problem, least, most, refused)

    return exactly if is_installed() else None
