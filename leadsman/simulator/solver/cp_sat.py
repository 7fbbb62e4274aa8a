"""Chooses for some pods with CP-SAT. Imported by `child` alone.

One worker and a limit on deterministic time make it reproducible:
https://github.com/google/or-tools/blob/stable/ortools/sat/sat_parameters.proto
"""

from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from leadsman.planning.optimise.problem import Choices, Problem
from leadsman.planning.optimise.search import Solved
from leadsman.simulator.solver.part_model import PartModel


class CpSat:
    """A Solver. seconds_left: a cap on the time of the wall, asked before each solving."""

    def __init__(self, seed: int, seconds_left: Callable[[], float]) -> None:
        self._seed, self._seconds_left = seed, seconds_left

    def __call__(self, problem: Problem, choices: Choices, pods: Sequence[int], work: float) -> Solved:
        part = PartModel(problem, choices, pods)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed
        solver.parameters.max_deterministic_time = work
        solver.parameters.max_time_in_seconds = max(self._seconds_left(), 0.01)
        solver.parameters.linearization_level = 2
        status = solver.solve(part.model)
        used = float(solver.response_proto.deterministic_time)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            bound = solver.best_objective_bound if status == cp_model.UNKNOWN else 0.0
            return Solved(choices, False, bound + part.constant, used)
        chosen = part.chosen(lambda var: bool(solver.boolean_value(var)))
        return Solved(chosen, status == cp_model.OPTIMAL, solver.best_objective_bound + part.constant, used)
