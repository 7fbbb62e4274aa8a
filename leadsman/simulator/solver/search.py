"""Searches large neighbourhoods: a solver chooses again for some pods while all others stay.

A relaxation gives a lower bound first. After that the solver chooses again for the pods around a few nodes at a time,
and now and then for all pods of a small problem, which answers it or raises the bound.
Pisinger and Ropke, Large Neighborhood Search, in Handbook of Metaheuristics (2010).
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from ortools.linear_solver import pywraplp

from leadsman.planning.optimise.choices import Choices, Ended, Found, Load, Problem, Score, score
from leadsman.simulator.solver.cp_sat import PartModel, objective_weights, solve_part

JOINT_SHARE, JOINT_PODS = 0.2, 300
"""This share of the work so far goes to all pods at once, while they are no more than JOINT_PODS. With 500 pods that
neither found nor proved anything in minutes that the relaxation and the neighbourhoods had not in seconds."""

FIRST_JOINT_WORK = 0.25
"""Work for all pods at once the first time; each later time has twice as much."""

MIN_PODS, FIRST_PODS = 10, 40
"""Pods in one neighbourhood: at least, and at first."""

NEIGHBOURHOOD_SHARE, LEAST_WORK = 1 / 80, 0.05
"""One neighbourhood may use this share of the work so far, and the least work however little that is."""

STEP_WORK = 0.001
"""Says what a step counts for at least, so that a search ends whose steps cost nothing."""

LACKING_SHARE = 0.5
"""This share of the neighbourhoods is around a pod that lacks its place or backup, while there are such pods."""

MOST_OBJECTIVE = 1 << 62
"""CP-SAT refuses a model whose objective may be larger."""

NEAREST_NODES = 6
"""A neighbourhood grows from a node to one of those that share most pods with it."""


def is_too_fine(problem: Problem) -> bool:
    """Tells whether the solver would refuse it: one request of an odd number of bytes makes the byte the unit."""
    return objective_weights(problem).unplaced * (len(problem.pods) + 1) > MOST_OBJECTIVE


def search(
    problem: Problem, start: Choices, seed: int, work: float, seconds: float, progress: Callable[[Found], None]
) -> Found:
    """Returns choices never worse than `start`, which must fit: else ValueError.

    More work never gives worse choices: no step looks at how much there is in all, so a longer search takes the steps
    of a shorter one and then more, and the best is kept.

    work: CP-SAT's deterministic time; the relaxation is not counted in it. seconds: a cap on the time of the wall.
    progress: called with the best so far.
    """
    ends_at, rng = time.monotonic() + seconds, np.random.default_rng(seed)

    def seconds_left() -> float:
        return ends_at - time.monotonic()

    best, at = start, score(problem, start)
    if at is None:
        raise ValueError("the first choices do not fit on their nodes")
    relaxed_for, relaxed, objective = at[:2], relaxed_reserve(problem, start, at, seconds_left()), 0.0
    spent, joint_spent, joint_work, size = 0.0, 0.0, FIRST_JOINT_WORK, float(FIRST_PODS)
    nodes, proven = _Neighbourhoods(problem), _is_proven(at, relaxed)

    def found(ended: Ended, best: Choices, at: Score) -> Found:
        bound = max(relaxed if at[:2] == relaxed_for else 0, reserved_bound(problem, at, objective))
        return Found(best, at, min(bound, at.reserved), spent, ended)

    progress(found(Ended.SECONDS, best, at))
    while not proven and spent < work and seconds_left() > 0:
        jointly = len(problem.pods) <= JOINT_PODS and joint_spent <= JOINT_SHARE * spent
        pods = range(len(problem.pods)) if jointly else nodes.draw(best, int(min(size, len(problem.pods))), rng)
        most = joint_work if jointly else max(LEAST_WORK, spent * NEIGHBOURHOOD_SHARE)
        part, before = solve_part(problem, best, pods, min(work - spent, most), seed, seconds_left()), at
        spent += max(part.work, STEP_WORK)
        best, at = _no_worse(problem, best, at, part.choices)
        if jointly:
            joint_spent, joint_work = joint_spent + part.work, 2 * joint_work
            objective = max(objective, part.bound)
        else:
            size = min(size * 1.05, len(problem.pods)) if part.proven else max(size * 0.85, MIN_PODS)
        proven = (jointly and part.proven) or _is_proven(at, found(Ended.SECONDS, best, at).reserved_bound)
        if at < before:
            progress(found(Ended.SECONDS, best, at))
    if at[:2] != relaxed_for:
        relaxed, relaxed_for = relaxed_reserve(problem, best, at, seconds_left()), at[:2]
    ended = Ended.PROVEN if proven else Ended.WORK if spent >= work else Ended.SECONDS
    return found(ended, best, at)


def _is_proven(at: Score, bound: int) -> bool:
    return at.moves == 0 and at.reserved <= bound and not at.unplaced and not at.uncovered


def _no_worse(problem: Problem, best: Choices, at: Score, other: Choices) -> tuple[Choices, Score]:
    """Returns the other choices where they are as good: equal ones lead on to places that the first do not reach."""
    found = score(problem, other)
    return (other, found) if found is not None and found <= at else (best, at)


def reserved_bound(problem: Problem, at: Score, objective: float) -> int:
    """Turns a bound on the objective into one on the reserve, when as many pods are placed and covered."""
    weights = objective_weights(problem)
    left = objective - at.unplaced * weights.unplaced - at.uncovered * weights.uncovered
    return max(0, math.ceil((left - (weights.reserve - 1)) / weights.reserve - 1e-6))


class _Neighbourhoods:
    """Draws pods whose choices bear on each other: all that run or fall on a few nodes that pods have in common."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        shared = np.zeros((len(problem.room.nodes),) * 2)
        for pod in problem.pods:
            reached = sorted({*pod.places, *pod.backups})
            shared[np.ix_(reached, reached)] += 1 / max(len(reached), 1)
        np.fill_diagonal(shared, 0)
        nearest = np.argsort(-shared, axis=1, kind="stable")[:, :NEAREST_NODES]
        self._near = [[other for other in row if shared[node, other]] for node, row in enumerate(nearest.tolist())]

    def draw(self, choices: Choices, size: int, rng: np.random.Generator) -> list[int]:
        """Draws about `size` pods: around one without its place or backup, or from a node by what it reserves."""
        by_node: dict[int | None, list[int]] = {}
        for number, choice in enumerate(choices):
            for node in choice:
                by_node.setdefault(node, []).append(number)
        load = Load(self._problem, choices)
        costs = load.costs(load.reserved).astype(float)
        chances = costs + max(costs.mean(), 1)
        chances /= chances.sum()
        pods, seen, queue = dict[int, None](), set[int](), list[int]()
        pairs = enumerate(zip(self._problem.pods, choices, strict=True))
        lacking = [number for number, (pod, choice) in pairs if pod.is_unplaced(choice) or pod.is_uncovered(choice)]
        if lacking and rng.random() < LACKING_SHARE:
            pods[lacking[int(rng.integers(len(lacking)))]] = None
            queue = sorted({node for number in pods for node in self._problem.pods[number].places})
        while len(pods) < size and len(seen) < len(costs):
            node = queue.pop(int(rng.integers(len(queue)))) if queue else int(rng.choice(len(costs), p=chances))
            if node not in seen:
                seen.add(node)
                pods.update(dict.fromkeys(by_node.get(node, ())))
                queue.extend(other for other in self._near[node] if other not in seen)
        return sorted(pods)


# A bound on the reserve, by a relaxation in which pods may be split over places and backups and reserves may not. The
# first node of SCIP's tree, with its cuts, has nearly all of the bound: 228 of the 229 that all nodes prove for 50
# nodes and 250 pods. A number of nodes is a limit that is reproducible, as one by time would not be.

_ONE_NODE = "limits/nodes = 1\nseparating/maxroundsroot = 10\npresolving/maxrestarts = 0\n"

_ROUNDING = 1e-6
"""The tolerance of a bound and of 1, which is SCIP's."""


def relaxed_reserve(problem: Problem, choices: Choices, at: Score, seconds: float) -> int:
    """Bounds the reserve from below: no choices that leave at most as many pods unplaced, and without place or backup,
    as `at` reserve less. 0 when the solver knows too little when the time ends."""
    part = PartModel(problem, choices, range(len(problem.pods)))
    solver = pywraplp.Solver.CreateSolver("SCIP")
    solver.SetTimeLimit(max(int(seconds * 1000), 1))
    solver.SetSolverSpecificParametersAsString(_ONE_NODE)
    variables = []
    for number, each in enumerate(part.model.proto.variables):
        make = solver.NumVar if number in part.choosing else solver.IntVar
        variables.append(make(*_ends(each.domain), ""))
    for weight, reserved in part.reserved:
        solver.Objective().SetCoefficient(variables[reserved.index], weight)
    solver.Objective().SetMinimization()
    unplaced = [(var.index, 1) for var in part.unplaced]
    lacking = [*unplaced, *((var.index, 1) for var in part.uncovered)]
    counted = [(unplaced, 0.0, at.unplaced), (lacking, 0.0, at.unplaced + at.uncovered)]
    for terms, least, most in [*_rows(part), *counted]:
        row = solver.Constraint(least, most)
        for column, factor in terms:
            row.SetCoefficient(variables[column], factor)
    if solver.Solve() not in (pywraplp.Solver.OPTIMAL, pywraplp.Solver.FEASIBLE):
        return 0
    bound = float(solver.Objective().BestBound())
    return max(0, math.ceil(bound - _ROUNDING * max(1.0, bound)))


def _rows(part: PartModel) -> Iterator[tuple[list[tuple[int, int]], float, float]]:
    """Yields the model's constraints: least ≤ sum of factor * column ≤ most. Only the ends of a domain count, so a
    literal must not be negated."""
    for each in part.model.proto.constraints:
        if each.has_linear():
            terms = list(zip(each.linear.vars, each.linear.coeffs, strict=True))
            yield terms, *_ends(each.linear.domain)
        else:
            yield [(literal, 1) for literal in each.exactly_one.literals], 1.0, 1.0


def _ends(domain: Iterable[int]) -> tuple[float, float]:
    """Returns the least and the largest value. CP-SAT's domains end at the ends of int64 where they are open."""
    least, *_, most = (math.copysign(math.inf, end) if abs(end) >= 1 << 62 else float(end) for end in domain)
    return least, most
