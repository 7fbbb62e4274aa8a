"""Large-neighbourhood search: a solver chooses again for some pods while all others stay.

A relaxation gives a lower bound first. After that the solver chooses again for the pods around a few nodes at a time,
and now and then for all pods of a small problem, which answers it or raises the bound.
Pisinger and Ropke, Large Neighborhood Search, in Handbook of Metaheuristics (2010).
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from leadsman.planning.optimise.choices import (
    Choice,
    Choices,
    Load,
    PodOptions,
    Problem,
    Score,
    score,
)

JOINT_SHARE, JOINT_PODS = 0.2, 300
"""Of the work so far, for all pods at once when they are no more. With 500 pods that neither found nor proved anything
in minutes that the relaxation and the neighbourhoods had not in seconds."""

FIRST_JOINT_WORK = 0.25
"""For all pods at once the first time, twice as much each time after."""

MIN_PODS, FIRST_PODS = 10, 40
"""In one neighbourhood: at least, and at first."""

NEIGHBOURHOOD_SHARE, LEAST_WORK = 1 / 80, 0.05
"""Of the work so far, for one neighbourhood at most; and what it may use however little that is."""

STEP_WORK = 0.001
"""What a step counts for at least, so that a search ends whose steps cost nothing."""

LACKING_SHARE = 0.5
"""Of the neighbourhoods, around a pod that lacks its place or backup, while there are such pods."""

NEAREST_NODES = 6
"""A neighbourhood grows from a node to one of those that share most pods with it."""


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


class LowerBound(Protocol):
    """No choices that leave at most as many pods unplaced, and without place or backup, as `at` reserve less."""

    def __call__(self, problem: Problem, choices: Choices, at: Score) -> int: ...


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
        """Returns what one pod's choice costs, apart from what nodes reserve."""
        missing = pod.is_unplaced(choice) * self.unplaced + pod.is_uncovered(choice) * self.uncovered
        return missing + pod.is_moved(choice)


def objective_weights(problem: Problem) -> ObjectiveWeights:
    """Those of a problem: no plan reserves more than the nodes have, nor more than all pods ask for together."""
    weights, room = np.array(problem.weights, np.int64), problem.room
    asked = sum(int(weights @ np.array(pod.requests, np.int64)) for pod in problem.pods)
    fixed = sum(int(weights @ amounts) for _, _, amounts in room.needs)
    reserve = sum(pod.home is not None for pod in problem.pods) + 1
    uncovered = reserve * (min(int((room.free @ weights).sum()), asked + fixed) + 1)
    return ObjectiveWeights(uncovered * (len(problem.pods) + 1), uncovered, reserve)


def search(
    problem: Problem,
    start: Choices,
    solver: Solver,
    lower_bound: LowerBound,
    work: float,
    rng: np.random.Generator,
    out_of_time: Callable[[], bool],
    progress: Callable[[Found], None],
) -> Found:
    """Choices never worse than `start`, which must fit: else ValueError.

    More work never gives worse choices: no step looks at how much there is in all, so a longer search takes the steps
    of a shorter one and then more, and the best is kept.

    work: what the solver may use; the lower bound is not counted in it. progress: called with the best so far.
    """
    best, at = start, score(problem, start)
    if at is None:
        raise ValueError("the first choices do not fit on their nodes")
    relaxed_for, relaxed, objective = at[:2], lower_bound(problem, start, at), 0.0
    spent, joint_spent, joint_work, size = 0.0, 0.0, FIRST_JOINT_WORK, float(FIRST_PODS)
    nodes, proven = _Neighbourhoods(problem), _is_proven(at, relaxed)

    def found(ended: Ended, best: Choices, at: Score) -> Found:
        bound = max(relaxed if at[:2] == relaxed_for else 0, reserved_bound(problem, at, objective))
        return Found(best, at, min(bound, at.reserved), spent, ended)

    progress(found(Ended.SECONDS, best, at))
    while not proven and spent < work and not out_of_time():
        jointly = len(problem.pods) <= JOINT_PODS and joint_spent <= JOINT_SHARE * spent
        pods = range(len(problem.pods)) if jointly else nodes.draw(best, int(min(size, len(problem.pods))), rng)
        most = joint_work if jointly else max(LEAST_WORK, spent * NEIGHBOURHOOD_SHARE)
        part, before = solver(problem, best, pods, min(work - spent, most)), at
        spent += max(part.work, STEP_WORK)
        best, at = _no_worse(problem, best, at, part.choices)
        if jointly:
            joint_spent, joint_work = joint_spent + part.work, 2 * joint_work
            objective = max(objective, part.bound)
        else:
            size = min(size * 1.05, len(problem.pods)) if part.proven else max(size * 0.85, MIN_PODS)
        proven = (jointly and part.proven) or _is_proven(at, found(Ended.SECONDS, best, at).reserved_bound)
        if at[:4] < before[:4]:
            progress(found(Ended.SECONDS, best, at))
    if at[:2] != relaxed_for:
        relaxed, relaxed_for = lower_bound(problem, best, at), at[:2]
    ended = Ended.PROVEN if proven else Ended.WORK if spent >= work else Ended.SECONDS
    return found(ended, best, at)


def _is_proven(at: Score, bound: int) -> bool:
    return at.moves == 0 and at.reserved <= bound and not at.unplaced and not at.uncovered


def _no_worse(problem: Problem, best: Choices, at: Score, other: Choices) -> tuple[Choices, Score]:
    """The other choices where they are as good: equal ones lead on to places that the first do not reach."""
    found = score(problem, other)
    return (other, found) if found is not None and found[:4] <= at[:4] else (best, at)


def reserved_bound(problem: Problem, at: Score, objective: float) -> int:
    """Returns what of a bound on the objective is a bound on the reserve, when as many pods are placed and covered."""
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
        """About `size` pods: around one that lacks its place or backup, or from a node drawn by what it reserves."""
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
