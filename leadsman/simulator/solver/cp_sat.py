"""Chooses for some pods with CP-SAT. Imported by `child` alone.

One worker and a limit on deterministic time make it reproducible:
https://github.com/google/or-tools/blob/stable/ortools/sat/sat_parameters.proto
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from leadsman.planning.backups.backup_plan import FailureDomain
from leadsman.planning.optimise.choices import Choice, Choices, Load, Problem
from leadsman.planning.optimise.search import Solved, objective_weights

Sized = list[tuple[int, cp_model.IntVar]]
"""Pods of the problem, each with a variable that is 1 when the pod takes part."""


class PartModel:
    """The model of the part in which `pods` choose again and all others stay as `choices` has them.

    It has a binary variable for each pod, place and backup.

    model: all its constraints are linear or an exactly-one.
    reserved: what each node reserves of each resource that costs something, with its weight.
    unplaced, uncovered: 1 where a pod of the part has no place, or lacks its backup.
    constant: what pods outside of the part, and nodes that it cannot change, add to the objective.
    """

    def __init__(self, problem: Problem, choices: Choices, pods: Sequence[int]) -> None:
        self.model = cp_model.CpModel()
        self.reserved: list[tuple[int, cp_model.IntVar]] = []
        self.unplaced: list[cp_model.IntVar] = []
        self.uncovered: list[cp_model.IntVar] = []
        self._problem, self._choices = problem, choices
        self._staying, self._weights = Load(problem, choices), objective_weights(problem)
        self._options: dict[int, list[tuple[Choice, cp_model.IntVar]]] = {}
        self._used: dict[int, Sized] = defaultdict(list)
        self._needs: dict[int, dict[FailureDomain, Sized]] = defaultdict(lambda: defaultdict(list))
        self._falling: dict[int, dict[int, list[cp_model.IntVar]]] = defaultdict(lambda: defaultdict(list))
        self._terms: list[cp_model.LinearExprT] = []
        for number in pods:
            self._staying.add(problem.pods[number], choices[number], -1)
            self._add_pod(number)
        touched = {*self._used, *self._needs}
        for node in sorted(touched):
            self._add_node(node)
        self._terms.extend(weight * self._weights.reserve * reserved for weight, reserved in self.reserved)
        self.model.minimize(sum(self._terms))
        costs = self._staying.costs(self._staying.reserved).tolist()
        others = (number for number in range(len(problem.pods)) if number not in self._options)
        self.constant = self._weights.reserve * sum(
            cost for node, cost in enumerate(costs) if node not in touched
        ) + sum(self._weights.of(problem.pods[number], choices[number]) for number in others)

    def chosen(self, is_one: Callable[[cp_model.IntVar], bool]) -> Choices:
        """The choices of all pods under a solution. is_one: whether a variable is 1 in it."""
        choices = list(self._choices)
        for number, mine in self._options.items():
            choices[number] = next(choice for choice, var in mine if is_one(var))
        return tuple(choices)

    def _add_pod(self, number: int) -> None:
        pod, mine = self._problem.pods[number], self._options.setdefault(number, [])
        for choice in self._problem.options(pod):
            var = self.model.new_bool_var("")
            mine.append((choice, var))
            self.model.add_hint(var, choice == self._choices[number])
            if cost := self._weights.of(pod, choice):
                self._terms.append(cost * var)
            if pod.is_unplaced(choice):
                self.unplaced.append(var)
            if pod.is_uncovered(choice):
                self.uncovered.append(var)
            if choice.place is not None:
                self._used[choice.place].append((number, var))
            if choice.backup is not None:
                self._falling[choice.backup][number].append(var)
                for domain in self._problem.survived(pod, choice.place):
                    self._needs[choice.backup][domain].append((number, var))
        self.model.add_exactly_one(var for _, var in mine)

    def _add_node(self, node: int) -> None:
        """Pods and reserve fit on the node, and the reserve is what the worst failure needs."""
        least, free = self._staying.reserved[node].tolist(), self._staying.free[node].tolist()
        for resource, weight in enumerate(self._problem.weights):
            room = free[resource]
            reserved = self.model.new_int_var(least[resource], max(room, least[resource]), "")
            self.model.add(self._sum(self._used[node], resource) + reserved <= room)
            for domain, falling in sorted(self._needs[node].items()):
                fixed = self._staying.needs.get(domain, {}).get(node)
                staying = 0 if fixed is None else int(fixed[resource])
                self.model.add(self._sum(falling, resource) + staying <= reserved)
            if weight:
                self.reserved.append((weight, reserved))
                self._add_steps(node, resource, least[resource], reserved)

    def _add_steps(self, node: int, resource: int, least: int, reserved: cp_model.IntVar) -> None:
        """A node that is the backup of a pod, wherever that pod runs, reserves at least the pod's request.

        The failures imply this for whole pods; for the halves of pods that a relaxation spreads over places they do
        not. A step is 1 when the reserve is at least one of the sizes that the pods have, so those below it are 1 too.
        """
        by_size: dict[int, list[list[cp_model.IntVar]]] = defaultdict(list)
        for number, falling in self._falling[node].items():
            size = self._problem.pods[number].requests[resource]
            if size > least:
                by_size[size].append(falling)
        steps: list[tuple[int, cp_model.IntVar]] = []
        below = least
        for size in sorted(by_size):
            step = self.model.new_bool_var("")
            for falling in by_size[size]:
                self.model.add(sum(falling) <= step)
            if steps:
                self.model.add(step <= steps[-1][1])
            steps.append((size - below, step))
            below = size
        if steps:
            self.model.add(sum(height * step for height, step in steps) + least <= reserved)

    def _sum(self, pods: Sized, resource: int) -> cp_model.LinearExpr:
        sizes = [self._problem.pods[number].requests[resource] for number, _ in pods]
        return cp_model.LinearExpr.weighted_sum([var for _, var in pods], sizes)


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
