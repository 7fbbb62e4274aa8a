"""Large-neighbourhood search: a solver chooses again for some pods while all others stay.

It first looks at all pods at once, which proves a lower bound and answers small problems; then at the pods around a few
nodes at a time. Pisinger and Ropke, Large Neighborhood Search, in Handbook of Metaheuristics (2010).
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from leadsman.planning.optimise.problem import NOWHERE, Amounts, Choice, Choices, PodOptions, Problem, Score, score

JOINT_SHARE = 0.4
"""Of the work, for all pods at once."""

MIN_PODS, FIRST_PODS = 6, 24
"""In one neighbourhood: at least, and at first."""

NEIGHBOURHOOD_SHARE = 1 / 25
"""Of the work, for one neighbourhood at most."""


class Ended(StrEnum):
    """Why a search stopped."""

    PROVEN = "proven optimal"
    WORK = "work used up"
    SECONDS = "seconds used up"
    NO_SEARCH = "nothing was searched"


class Solved(Struct, frozen=True):
    """What a solver made of a part.

    choices: the best that it knows, of all pods. proven: none is better in this part.
    bound: no choice of this part has a smaller objective. work: what it took.
    """

    choices: Choices
    proven: bool
    bound: float
    work: float


class Solver(Protocol):
    """Chooses for `pods` again, the others staying, from `choices` on, with at most `work`."""

    def __call__(self, problem: Problem, choices: Choices, pods: Sequence[int], work: float) -> Solved: ...


class Found(Struct, frozen=True):
    """What a search ended with.

    reserved_bound: no choices that place and cover as many pods reserve less; 0: nothing is proven.
    """

    choices: Choices
    score: Score
    reserved_bound: int
    work: float
    ended: Ended


class ObjectiveWeights(NamedTuple):
    """What a solver minimises, as one number: the reserve times `reserve`, a move, a pod without its backup times
    `uncovered`, one without a place times `unplaced`. Each is more than all that comes after it can cost together."""

    unplaced: int
    uncovered: int
    reserve: int

    def of(self, pod: PodOptions, choice: Choice) -> int:
        """What one pod's choice costs, apart from what nodes reserve."""
        missing = pod.is_unplaced(choice) * self.unplaced + pod.is_uncovered(choice) * self.uncovered
        return missing + (pod.home not in (NOWHERE, choice.place))


def objective_weights(problem: Problem) -> ObjectiveWeights:
    capacity = sum(_weighted(problem, tuple(max(amount, 0) for amount in free)) for free in problem.free)
    asked = sum(_weighted(problem, pod.requests) for pod in problem.pods)
    fixed = sum(_weighted(problem, need.amounts) for need in problem.fixed_needs)
    reserve = sum(pod.home != NOWHERE for pod in problem.pods) + 1
    uncovered = reserve * (min(capacity, asked + fixed) + 1)
    return ObjectiveWeights(uncovered * (len(problem.pods) + 1), uncovered, reserve)


def _weighted(problem: Problem, amounts: Amounts) -> int:
    return sum(weight * amount for weight, amount in zip(problem.weights, amounts, strict=True))


def search(
    problem: Problem,
    start: Choices,
    solver: Solver,
    work: float,
    rng: np.random.Generator,
    out_of_time: Callable[[], bool],
    progress: Callable[[Score, float], None],
) -> Found:
    """Choices never worse than `start`, which must fit: else ValueError.

    progress: called with the score and the work so far.
    """
    best, at = start, score(problem, start)
    if at is None:
        raise ValueError("the first choices do not fit on their nodes")
    joint = solver(problem, best, range(len(problem.pods)), work * JOINT_SHARE)
    best, at = _better(problem, best, at, joint.choices)
    spent, bound = joint.work, reserved_bound(problem, at, joint.bound)
    progress(at, spent)
    proven, size = joint.proven, float(min(FIRST_PODS, len(problem.pods)))
    while not proven and spent < work and not out_of_time():
        pods = _neighbourhood(problem, best, int(size), rng)
        part = solver(problem, best, pods, min(work - spent, work * NEIGHBOURHOOD_SHARE))
        spent += max(part.work, work * 1e-4)
        before = at
        best, at = _better(problem, best, at, part.choices)
        if at < before:
            progress(at, spent)
        size = min(size * 1.1, len(problem.pods)) if part.proven else max(size * 0.85, MIN_PODS)
        proven = at.moves == 0 and at.reserved <= bound and not at.unplaced and not at.uncovered
    ended = Ended.PROVEN if proven else Ended.WORK if spent >= work else Ended.SECONDS
    return Found(best, at, min(bound, at.reserved), spent, ended)


def _better(problem: Problem, best: Choices, at: Score, other: Choices) -> tuple[Choices, Score]:
    found = score(problem, other)
    return (other, found) if found is not None and found[:4] < at[:4] else (best, at)


def reserved_bound(problem: Problem, at: Score, objective: float) -> int:
    """What of a bound on the objective is a bound on the reserve, when as many pods are placed and covered."""
    weights = objective_weights(problem)
    left = objective - at.unplaced * weights.unplaced - at.uncovered * weights.uncovered
    return max(0, math.ceil((left - (weights.reserve - 1)) / weights.reserve - 1e-6))


def _neighbourhood(problem: Problem, choices: Choices, size: int, rng: np.random.Generator) -> list[int]:
    """Pods around nodes that share pods, from a node on that is drawn at random."""
    by_node: dict[int, list[int]] = {}
    for number, choice in enumerate(choices):
        for node in choice:
            by_node.setdefault(node, []).append(number)
    nodes = sorted(by_node)
    queue, seen, pods = [nodes[int(rng.integers(len(nodes)))]], set[int](), dict[int, None]()
    while len(pods) < size:
        if not queue:
            rest = [node for node in nodes if node not in seen]
            if not rest:
                break
            queue.append(rest[int(rng.integers(len(rest)))])
        node = queue.pop(int(rng.integers(len(queue))))
        if node in seen:
            continue
        seen.add(node)
        for number in by_node.get(node, ()):
            pods[number] = None
            reached = {*problem.pods[number].backups, *problem.pods[number].places}
            queue.extend(sorted(other for other in reached if other != NOWHERE and other not in seen))
    return sorted(list(pods)[:size])
