"""`python -m leadsman.simulator.solver.child`: a Job on standard input, a line on standard output for each better plan.

Its bound on the reserve is by linear programming: pods may be split. It is computed from the dual values and is one for
whatever values they have, so GLOP's tolerances do not weaken it: Neumaier and Shcherbina, Safe bounds in linear and
mixed-integer linear programming, Math. Program. 99, 2004.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from ortools.linear_solver import pywraplp

from leadsman.planning.optimise.choices import Choices, Problem, Score
from leadsman.planning.optimise.search import Found, search
from leadsman.simulator.solver.cp_sat import CpSat, PartModel
from leadsman.simulator.solver.process import Job, decode, encode

_ROUNDING = 1e-6


class Row(NamedTuple):
    """least ≤ sum of factor * column ≤ most."""

    terms: list[tuple[int, int]]
    least: float
    most: float


class Relaxation:
    """A LowerBound. seconds_left: a cap on the time of the wall; when it ends the solver the bound is 0."""

    def __init__(self, seconds_left: Callable[[], float]) -> None:
        self._seconds_left = seconds_left

    def __call__(self, problem: Problem, choices: Choices, at: Score) -> int:
        part = PartModel(problem, choices, range(len(problem.pods)))
        columns = [_ends(each.domain) for each in part.model.proto.variables]
        costs = [0] * len(columns)
        for weight, reserved in part.reserved:
            costs[reserved.index] = weight
        unplaced = [(var.index, 1) for var in part.unplaced]
        lacking = [*unplaced, *((var.index, 1) for var in part.uncovered)]
        most = [Row(unplaced, 0, at.unplaced), Row(lacking, 0, at.unplaced + at.uncovered)]
        rows = [*rows_of(part), *most]
        duals = self._duals(columns, costs, rows)
        return max(0, math.ceil(_safe_bound(columns, costs, rows, duals) - _ROUNDING))

    def _duals(self, columns: list[tuple[float, float]], costs: list[int], rows: list[Row]) -> list[float]:
        """One for each row; all 0 when the solver does not end in time."""
        solver = pywraplp.Solver.CreateSolver("GLOP")
        solver.SetTimeLimit(max(int(self._seconds_left() * 1000), 1))
        variables = [solver.NumVar(least, most, "") for least, most in columns]
        for column, cost in enumerate(costs):
            solver.Objective().SetCoefficient(variables[column], cost)
        solver.Objective().SetMinimization()
        made = []
        for row in rows:
            made.append(solver.Constraint(row.least, row.most))
            for column, factor in row.terms:
                made[-1].SetCoefficient(variables[column], factor)
        solved = solver.Solve() == pywraplp.Solver.OPTIMAL
        return [each.dual_value() for each in made] if solved else [0.0] * len(rows)


def rows_of(part: PartModel) -> Iterator[Row]:
    """The model's constraints. Only the ends of a domain count, so a literal must not be negated."""
    for each in part.model.proto.constraints:
        if each.has_linear():
            terms = list(zip(each.linear.vars, each.linear.coeffs, strict=True))
            yield Row(terms, *_ends(each.linear.domain))
        else:
            yield Row([(literal, 1) for literal in each.exactly_one.literals], 1, 1)


def _ends(domain: Iterable[int]) -> tuple[float, float]:
    """The least and the largest value. CP-SAT's domains end at the ends of int64 where they are open."""
    least, *_, most = (math.copysign(math.inf, end) if abs(end) >= 1 << 62 else float(end) for end in domain)
    return least, most


def _safe_bound(columns: list[tuple[float, float]], costs: list[int], rows: list[Row], duals: list[float]) -> float:
    """Returns what the costs are at least: the rows, each weighed by its dual, and what that leaves of the costs."""
    bound, left = 0.0, [float(cost) for cost in costs]
    for row, dual in zip(rows, duals, strict=True):
        end = row.least if dual > 0 else row.most
        if dual and math.isfinite(end):
            bound += dual * end
            for column, factor in row.terms:
                left[column] -= dual * factor
    return bound + sum(cost * (least if cost > 0 else most) for cost, (least, most) in zip(left, columns, strict=True))


def main() -> None:
    job = decode(sys.stdin.buffer.read(), Job)
    ends_at = time.monotonic() + job.seconds

    def seconds_left() -> float:
        return ends_at - time.monotonic()

    def tell(found: Found) -> None:
        sys.stdout.buffer.write(encode(found) + b"\n")
        sys.stdout.buffer.flush()

    solver, rng = CpSat(job.seed, seconds_left), np.random.default_rng(job.seed)
    bound = Relaxation(seconds_left)
    tell(search(job.problem, job.start, solver, bound, job.work, rng, lambda: seconds_left() <= 0, tell))


if __name__ == "__main__":
    main()
