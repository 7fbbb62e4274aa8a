"""Solves the problems of `plan optimise`, `plan fit` and `simulate placement` with OR-Tools, the extra `plan`.

OR-Tools takes seconds to import, so it is imported when the first question is asked.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from leadsman.planning.capacity.count import PackingSolver
from leadsman.planning.capacity.fit_problem import Packing
from leadsman.planning.capacity.fit_problem import Problem as PackingProblem
from leadsman.planning.optimise.choices import Choices, Found, Problem


def is_installed() -> bool:
    """Tells whether the extra `plan` is here. Nothing of it is imported for the answer."""
    return find_spec("ortools") is not None


def optimise(
    problem: Problem, start: Choices, seed: int, work: float, seconds: float, progress: Callable[[Found], None]
) -> Found:
    """Choices never worse than `start`, as `search.search` finds them."""
    from leadsman.simulator.solver.search import search

    return search(problem, start, seed, work, seconds, progress)


def packing_solver() -> PackingSolver | None:
    """The exact solver of `plan fit`; None: the extra `plan` is not installed."""

    def exactly(
        problem: PackingProblem, least: int, most: int, refused: Sequence[Packing]
    ) -> tuple[Packing | None, int]:
        from leadsman.simulator.solver.cp_sat import exact_packing

        return exact_packing(problem, least, most, refused)

    return exactly if is_installed() else None
