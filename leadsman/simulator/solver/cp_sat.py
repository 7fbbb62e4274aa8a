"""Models the problems of `plan optimise` and `plan fit` for CP-SAT; both reserve for failures by one rule.

One worker and a limit on deterministic time make it reproducible:
https://github.com/google/or-tools/blob/stable/ortools/sat/sat_parameters.proto
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from ortools.sat.python import cp_model

from leadsman.planning.backups.backup_plan import FailureDomain
from leadsman.planning.capacity.packing import Packing, Spread
from leadsman.planning.capacity.packing import Problem as PackingProblem
from leadsman.planning.optimise.choices import Choice, Choices, Load, PodOptions, Problem

Expression: TypeAlias = cp_model.LinearExpr | int


def reserve(
    model: cp_model.CpModel, free: int, least: int, used: Expression, needs: Iterable[tuple[Expression, int]]
) -> cp_model.IntVar:
    """Adds what a node reserves of one resource: the most that one failure brings there, beside the pods that run.

    least: what is reserved already; a node that is overcommitted takes no pod. needs: of each failure what falls there
    by the model's choice, and in any case.
    """
    reserved = model.new_int_var(least, max(free, least), "")
    model.add(used + reserved <= max(free, least))
    for chosen, fixed in needs:
        model.add(chosen + fixed <= reserved)
    return reserved


class ObjectiveWeights(NamedTuple):
    """Weighs what a solver minimises, as one number: the reserve times `reserve`, a move, a pod without its backup
    times `uncovered`, one without a place times `unplaced`. Each is more than all that comes after it can cost
    together."""

    unplaced: int
    uncovered: int
    reserve: int

    def of(self, pod: PodOptions, choice: Choice) -> int:
        """Returns what one pod's choice costs, apart from what nodes reserve."""
        missing = pod.is_unplaced(choice) * self.unplaced + pod.is_uncovered(choice) * self.uncovered
        return missing + pod.is_moved(choice)


def objective_weights(problem: Problem) -> ObjectiveWeights:
    """Returns the weights of a problem: no plan reserves more than the nodes have, nor more than all pods ask for."""
    weights, room = np.array(problem.weights, np.int64), problem.room
    asked = sum(int(weights @ np.array(pod.requests, np.int64)) for pod in problem.pods)
    fixed = sum(int(weights @ amounts) for _, _, amounts in room.needs)
    reserve = sum(pod.home is not None for pod in problem.pods) + 1
    uncovered = reserve * (min(int((room.free @ weights).sum()), asked + fixed) + 1)
    return ObjectiveWeights(uncovered * (len(problem.pods) + 1), uncovered, reserve)


Sized = list[tuple[int, cp_model.IntVar]]
"""Pods of the problem, each with a variable that is 1 when the pod takes part."""


class PartModel:
    """Models the part of a problem in which `pods` choose again and all others stay as `choices` has them.

    It has a binary variable for each pod, place and backup.

    model: all its constraints are linear or an exactly-one.
    reserved: what each node reserves of each resource that costs something, with its weight.
    unplaced, uncovered: 1 where a pod of the part has no place, or lacks its backup.
    choosing: indices of the variables of pods, places and backups.
    constant: what pods outside of the part, and nodes that it cannot change, add to the objective.
    """

    def __init__(self, problem: Problem, choices: Choices, pods: Sequence[int]) -> None:
        self.model = cp_model.CpModel()
        self.reserved: list[tuple[int, cp_model.IntVar]] = []
        self.unplaced: list[cp_model.IntVar] = []
        self.uncovered: list[cp_model.IntVar] = []
        self.choosing: set[int] = set()
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
        """Returns the choices of all pods under a solution. is_one: whether a variable is 1 in it."""
        choices = list(self._choices)
        for number, mine in self._options.items():
            choices[number] = next(choice for choice, var in mine if is_one(var))
        return tuple(choices)

    def _add_pod(self, number: int) -> None:
        pod, mine = self._problem.pods[number], self._options.setdefault(number, [])
        for choice in self._problem.options(pod):
            var = self.model.new_bool_var("")
            mine.append((choice, var))
            self.choosing.add(var.index)
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
            needs = []
            for domain, falling in sorted(self._needs[node].items()):
                fixed = self._staying.needs.get(domain, {}).get(node)
                needs.append((self._sum(falling, resource), 0 if fixed is None else int(fixed[resource])))
            used = self._sum(self._used[node], resource)
            reserved = reserve(self.model, free[resource], least[resource], used, needs)
            if weight:
                self.reserved.append((weight, reserved))
                self._add_steps(node, resource, least[resource], reserved)

    def _add_steps(self, node: int, resource: int, least: int, reserved: cp_model.IntVar) -> None:
        """Makes a node that is a pod's backup, wherever that pod runs, reserve at least the pod's request.

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


class Solved(NamedTuple):
    """The result of solving a part.

    choices: the best that is known, of all pods. proven: none is better in this part.
    bound: no choice of this part has a smaller objective. work: deterministic time that it took.
    """

    choices: Choices
    proven: bool
    bound: float
    work: float


def solve_part(
    problem: Problem, choices: Choices, pods: Sequence[int], work: float, seed: int, seconds: float
) -> Solved:
    """Chooses for `pods` again, from `choices` on, while the others stay. seconds: a cap on wall time."""
    part = PartModel(problem, choices, pods)
    solver = _solver(work)
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(seconds, 0.01)
    solver.parameters.linearization_level = 2
    status = solver.solve(part.model)
    used = float(solver.response_proto.deterministic_time)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        bound = solver.best_objective_bound if status == cp_model.UNKNOWN else 0.0
        return Solved(choices, False, bound + part.constant, used)
    chosen = part.chosen(lambda var: bool(solver.boolean_value(var)))
    return Solved(chosen, status == cp_model.OPTIMAL, solver.best_objective_bound + part.constant, used)


def _solver(work: float) -> cp_model.CpSolver:
    """Makes a solver of one thread that ends after so much work.

    work: in deterministic time, about as many seconds on a machine of today.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = work
    solver.parameters.catch_sigint_signal = False  # Ctrl-C ends the command, not one of its questions.
    return solver


PACKING_WORK = 10.0
"""One question may take this much work. Without a limit by the wall the same question has the same answer."""


def exact_packing(
    problem: PackingProblem, least: int, most: int, refused: Sequence[Packing] = ()
) -> tuple[Packing | None, int]:
    """Finds the packing with the most sets, and how many are proven not to be exceeded, as a PackingSolver."""
    model = _PackingModel(problem, least, most)
    for each in refused:
        model.refuse(each)
    solver = _solver(PACKING_WORK)
    status = solver.solve(model.model)
    if status == cp_model.INFEASIBLE:
        return None, least - 1
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, most
    return model.packing(solver), min(most, int(solver.best_objective_bound + 1e-6))


class _PackingModel:
    """Says how many pods of each template run on each node, and how many of those have each other node as their
    backup."""

    def __init__(self, problem: PackingProblem, least: int, most: int) -> None:
        self.model, self._problem = cp_model.CpModel(), problem
        self._nodes = range(len(problem.room.nodes))
        self._runs: dict[tuple[int, int], cp_model.IntVar] = {}
        self._backups: dict[tuple[int, int], dict[int, cp_model.IntVar]] = {}
        self._falling: dict[int, dict[FailureDomain, list[tuple[int, cp_model.IntVar]]]] = {
            node: defaultdict(list) for node in self._nodes
        }
        sets = self.model.new_int_var(least, most, "sets")
        for number, template in enumerate(problem.templates):
            pods = most * template.per_set
            in_domains = [each.domain_of_node >= 0 for each in template.spread]
            for node in np.flatnonzero(np.all([template.places, *in_domains], axis=0)).tolist():
                self._runs[number, node] = self.model.new_int_var(0, pods, "")
                if template.scopes:
                    self._add_backups(number, node, pods)
            self.model.add(sum(self._on(number, self._nodes)) == template.per_set * sets)
            for spread in template.spread:
                self._add_spread(number, spread, pods)
        for node in self._nodes:
            self._add_room(node)
        self.model.maximize(sets)

    def packing(self, solver: cp_model.CpSolver) -> Packing:
        """Returns the packing of a solution."""
        runs = np.zeros((len(self._problem.templates), len(self._nodes)), np.int64)
        for at, var in self._runs.items():
            runs[at] = solver.value(var)
        backups = {}
        for at, taking in self._backups.items():
            if runs[at]:
                backups[at] = {node: taken for node, var in taking.items() if (taken := solver.value(var))}
        return Packing(runs, backups)

    def refuse(self, packing: Packing) -> None:
        """Demands another packing: at least one of its numbers must differ."""
        differs = []
        for at, var in self._runs.items():
            differs.append(self._differs(var, int(packing.runs[at])))
            for backup, taken in self._backups.get(at, {}).items():
                differs.append(self._differs(taken, packing.backups.get(at, {}).get(backup, 0)))
        self.model.add_bool_or(differs)

    def _differs(self, var: cp_model.IntVar, value: int) -> cp_model.IntVar:
        literal = self.model.new_bool_var("")
        self.model.add(var != value).only_enforce_if(literal)
        return literal

    def _on(self, number: int, nodes: Sequence[int]) -> list[cp_model.IntVar]:
        return [self._runs[number, node] for node in nodes if (number, node) in self._runs]

    def _add_backups(self, number: int, node: int, pods: int) -> None:
        """Every pod that is to survive failures has one backup outside of all of them."""
        room, template = self._problem.room, self._problem.templates[number]
        failing = room.survived(node, template.scopes)
        taking = self._backups[number, node] = {}
        for backup in np.flatnonzero(template.backups).tolist():
            if not set(failing) & set(room.domains[backup]):
                taking[backup] = self.model.new_int_var(0, pods, "")
                for domain in failing:
                    self._falling[backup][domain].append((number, taking[backup]))
        self.model.add(sum(taking.values()) == self._runs[number, node])

    def _add_room(self, node: int) -> None:
        """Makes what runs on a node and what the worst failure brings there fit, resource by resource."""
        templates, ledger = self._problem.templates, self._problem.ledger()
        free, reserved = ledger.free[node].tolist(), ledger.reserved[node].tolist()
        for column in range(len(free)):
            amounts = [int(each.amounts[column]) for each in templates]
            asking = [(amount, self._runs.get((number, node))) for number, amount in enumerate(amounts) if amount]
            used = sum(amount * var for amount, var in asking if var is not None)
            needs = []
            for domain, falling in self._falling[node].items():
                fixed = ledger.needs.get(domain, {}).get(node)
                needed = sum(amounts[number] * var for number, var in falling)
                needs.append((needed, 0 if fixed is None else int(fixed[column])))
            reserve(self.model, free[column], reserved[column], used, needs)

    def _add_spread(self, number: int, spread: Spread, pods: int) -> None:
        """Bound one after another, the least populated domain first, no pod finds its domain too full: in the end each
        domain that got a pod has at most max_skew more than the least populated one."""
        counts = []
        for domain, present in enumerate(spread.present.tolist()):
            added = sum(self._on(number, np.flatnonzero(spread.domain_of_node == domain).tolist()))
            counts.append((present, added))
        least: cp_model.IntVar | int = 0
        if spread.enough_domains and spread.counted.any():
            counted = np.flatnonzero(spread.counted).tolist()
            least = self.model.new_int_var(0, int(spread.present.max()) + pods, "")
            for domain in counted:
                self.model.add(least <= counts[domain][0] + counts[domain][1])
        for present, added in counts:
            if not isinstance(added, int):
                has = self.model.new_bool_var("")
                self.model.add(added == 0).only_enforce_if(~has)
                self.model.add(present + added <= least + spread.max_skew).only_enforce_if(has)
