"""Chooses for some pods with CP-SAT: a binary variable for each pod, place and backup. Imported by `child` alone.

One worker and a limit on deterministic time make it reproducible:
https://github.com/google/or-tools/blob/stable/ortools/sat/sat_parameters.proto
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from leadsman.planning.optimise.problem import NOWHERE, Choice, Choices, Load, Problem
from leadsman.planning.optimise.search import Solved, objective_weights


class CpSat:
    """A Solver. seconds_left: a cap on the time of the wall, asked before each solving."""

    def __init__(self, seed: int, seconds_left: Callable[[], float]) -> None:
        self._seed, self._seconds_left = seed, seconds_left

    def __call__(self, problem: Problem, choices: Choices, pods: Sequence[int], work: float) -> Solved:
        model = _Model(problem, choices, pods)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self._seed
        solver.parameters.max_deterministic_time = work
        solver.parameters.max_time_in_seconds = max(self._seconds_left(), 0.01)
        solver.parameters.linearization_level = 2
        status = solver.solve(model.model)
        used = float(solver.response_proto.deterministic_time)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            bound = solver.best_objective_bound if status == cp_model.UNKNOWN else 0.0
            return Solved(choices, False, bound + model.constant, used)
        chosen = model.chosen(solver)
        return Solved(chosen, status == cp_model.OPTIMAL, solver.best_objective_bound + model.constant, used)


Sized = list[tuple[int, cp_model.IntVar]]
"""Pods of the problem, each with a variable that is 1 when the pod takes part."""


class _Model:
    """The model of a part. constant: what pods outside of it, and nodes that it cannot change, cost."""

    def __init__(self, problem: Problem, choices: Choices, pods: Sequence[int]) -> None:
        self.model = cp_model.CpModel()
        self._problem, self._choices = problem, choices
        self._staying, self._weights = Load.of(problem, choices), objective_weights(problem)
        self._options: dict[int, list[tuple[Choice, cp_model.IntVar]]] = {}
        self._used: dict[int, Sized] = defaultdict(list)
        self._needs: dict[int, dict[int, Sized]] = defaultdict(lambda: defaultdict(list))
        self._terms: list[cp_model.LinearExprT] = []
        for number in pods:
            self._staying.add(problem.pods[number], choices[number], -1)
            self._add_pod(number)
        touched = {*self._used, *self._needs}
        for node in sorted(touched):
            self._add_node(node)
        self.model.minimize(sum(self._terms))
        untouched = (node for node in range(len(problem.nodes)) if node not in touched)
        others = (number for number in range(len(problem.pods)) if number not in self._options)
        self.constant = self._weights.reserve * sum(map(self._staying.cost, untouched)) + sum(
            self._weights.of(problem.pods[number], choices[number]) for number in others
        )

    def chosen(self, solver: cp_model.CpSolver) -> Choices:
        choices = list(self._choices)
        for number, mine in self._options.items():
            choices[number] = next(choice for choice, var in mine if solver.boolean_value(var))
        return tuple(choices)

    def _add_pod(self, number: int) -> None:
        pod, mine = self._problem.pods[number], self._options.setdefault(number, [])
        for choice in self._problem.options(pod):
            var = self.model.new_bool_var("")
            mine.append((choice, var))
            self.model.add_hint(var, choice == self._choices[number])
            self._terms.append(self._weights.of(pod, choice) * var)
            if choice.place != NOWHERE:
                self._used[choice.place].append((number, var))
            if choice.backup != NOWHERE:
                for domain in self._problem.domains_survived(pod, choice.place):
                    self._needs[choice.backup][domain].append((number, var))
        self.model.add_exactly_one(var for _, var in mine)

    def _add_node(self, node: int) -> None:
        """Pods and reserve fit on the node, and the reserve is what the worst failure needs."""
        least, fixed = self._staying.reserved(node), self._staying.needs.get(node, {})
        for resource, weight in enumerate(self._problem.weights):
            room = max(self._problem.free[node][resource], 0) - self._staying.used[node][resource]
            reserved = self.model.new_int_var(least[resource], max(room, least[resource]), "")
            self.model.add(self._sum(self._used[node], resource) + reserved <= room)
            for domain, falling in sorted(self._needs[node].items()):
                staying = fixed[domain][resource] if domain in fixed else 0
                self.model.add(self._sum(falling, resource) + staying <= reserved)
            if weight:
                self._terms.append(weight * self._weights.reserve * reserved)

    def _sum(self, pods: Sized, resource: int) -> cp_model.LinearExpr:
        sizes = [self._problem.pods[number].requests[resource] for number, _ in pods]
        return cp_model.LinearExpr.weighted_sum([var for _, var in pods], sizes)
