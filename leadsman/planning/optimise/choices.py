"""The problem in integers: pods choose a place and a backup among nodes, and a choice of all pods has a score.

The first answer is greedy, one pod after another.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.planning.backups.backup_plan import FailureDomain
from leadsman.planning.backups.reserve import Ints, ReserveLedger, Room


class Choice(NamedTuple):
    """The node and the backup of one pod. place: the node that runs it; backup: the one that takes it after a failure;
    None: no node."""

    place: int | None
    backup: int | None


NO_NODE = Choice(None, None)

Choices = tuple[Choice, ...]
"""One for each pod of the problem."""


class PodOptions(Struct, frozen=True):
    """Says what one pod may choose.

    requests: of each resource, in its unit.
    home: the node that runs it now. home_keeps: whether its bounds and constraints hold there.
    places: nodes that may run it, with its home.
    backups: nodes that keep its bounds and constraints, and so may be its backup.
    scopes: how many of a node's domains it is to survive: 1: the node; 2: its rack too; 3: its zone too; 0: it wants no
        backup, or can have none.
    """

    requests: tuple[int, ...]
    home: int | None
    home_keeps: bool
    places: tuple[int, ...]
    backups: tuple[int, ...]
    scopes: int

    def is_unplaced(self, choice: Choice) -> bool:
        """Tells whether the pod would have no node that keeps its bounds."""
        return choice.place is None or (choice.place == self.home and not self.home_keeps)

    def is_uncovered(self, choice: Choice) -> bool:
        """Tells whether the pod would have a node and lack the backup that it wants."""
        return self.scopes > 0 and choice.place is not None and choice.backup is None

    def is_moved(self, choice: Choice) -> bool:
        """Tells whether the pod would leave the node that runs it now."""
        return self.home not in (None, choice.place)


class Problem(Struct, frozen=True, eq=False):
    """All that a search looks at.

    room: what is left by all that is not in `pods`; no amount is negative.
    units: how many of the cluster's units one unit of each resource is. weights: what reserving one unit costs.
    """

    room: Room
    units: tuple[int, ...]
    weights: tuple[int, ...]
    pods: tuple[PodOptions, ...]

    def survived(self, pod: PodOptions, place: int | None) -> tuple[FailureDomain, ...]:
        """Returns the failures that take the pod at this place and that it is to survive; (): it cannot, or asks for
        none."""
        return () if place is None else self.room.survived(place, pod.scopes)

    def options(self, pod: PodOptions) -> Iterator[Choice]:
        """Yields every place with every backup there, and with none."""
        for place in pod.places:
            yield Choice(place, None)
            failing = self.survived(pod, place)
            for backup in pod.backups if failing else ():
                if not set(failing) & set(self.room.domains[backup]):
                    yield Choice(place, backup)
        if pod.home is None:
            yield NO_NODE


class Score(NamedTuple):
    """Says what choices are worth; less is better, the first difference decides.

    unplaced, uncovered: pods without a node that keeps their bounds; those on a node that lack the backup they want.
    reserved: the weighted sum of what all nodes reserve.
    moves: pods that leave their node.
    """

    unplaced: int
    uncovered: int
    reserved: int
    moves: int


class Ended(StrEnum):
    """The reason why a search stopped."""

    PROVEN = "proven optimal"
    WORK = "work used up"
    SECONDS = "seconds used up"
    NO_SEARCH = "nothing was searched"
    TOO_FINE = "nothing was searched, as the requests share too small a unit"


class Found(Struct, frozen=True):
    """A search ended with these choices.

    reserved_bound: no choices that place and cover as many pods reserve less; 0: nothing is proven.
    """

    choices: Choices
    score: Score
    reserved_bound: int
    work: float
    ended: Ended


class Load(ReserveLedger):
    """Says what choices leave and reserve on each node."""

    def __init__(self, problem: Problem, choices: Choices) -> None:
        super().__init__(problem.room.free, problem.room.needs)
        self._problem, self._weights = problem, np.array(problem.weights, np.int64)
        self._capacity = problem.room.free.clip(min=1)
        for pod, choice in zip(problem.pods, choices, strict=True):
            self.add(pod, choice)

    def add(self, pod: PodOptions, choice: Choice, sign: int = 1) -> None:
        """Counts the pod; with sign -1, no longer."""
        amounts = sign * np.array(pod.requests, np.int64)
        if choice.place is not None:
            self.free[choice.place] -= amounts
        if choice.backup is not None:
            self.fall(self._problem.survived(pod, choice.place), choice.backup, amounts)

    def costs(self, reserved: Ints) -> Ints:
        """Returns what so much reserve costs on each node."""
        weighted: Ints = reserved @ self._weights
        return weighted

    def shares(self) -> NDArray[np.float64]:
        """Returns the share of each node's capacity that pods use, of the resource used most."""
        used: NDArray[np.float64] = ((self._problem.room.free - self.free) / self._capacity).max(axis=1, initial=0.0)
        return used

    def offers(self, pod: PodOptions, choices: Iterable[Choice]) -> Iterator[tuple[Choice, int, NDArray[np.float64]]]:
        """Yields those of the choices for which there is room, each with what it adds to the cost of the reserve, and
        the share of each node then. choices: those with one place stand together."""
        amounts = np.array(pod.requests, np.int64)
        for place, there in groupby(choices, key=lambda choice: choice.place):
            if place is not None:
                self.free[place] -= amounts
            reserved = self.reserved_with(self._problem.survived(pod, place), amounts)
            fits = np.all(reserved <= self.free, axis=1).tolist()
            shares = self.shares()
            place_fits = place is None or bool((self.reserved[place] <= self.free[place]).all())
            if place is not None:
                self.free[place] += amounts
            grown = self.costs(reserved - self.reserved)
            for choice in there if place_fits else ():
                if choice.backup is None:
                    yield choice, 0, shares
                elif fits[choice.backup]:
                    yield choice, int(grown[choice.backup]), shares


def score(problem: Problem, choices: Choices) -> Score | None:
    """Scores the choices. None: a node has no room for what is chosen."""
    load = Load(problem, choices)
    if (load.reserved > load.free).any():
        return None
    pairs = list(zip(problem.pods, choices, strict=True))
    return Score(
        unplaced=sum(pod.is_unplaced(choice) for pod, choice in pairs),
        uncovered=sum(pod.is_uncovered(choice) for pod, choice in pairs),
        reserved=int(load.costs(load.reserved).sum()),
        moves=sum(pod.is_moved(choice) for pod, choice in pairs),
    )


def greedy_choices(problem: Problem, start: Choices) -> Choices:
    """Every pod that has no place or no backup gets what reserves least, those with the fewest places first.

    start: what pods have already. A pod with a home keeps it, unless its home is not among its places.
    """
    load, choices = Load(problem, start), list(start)

    def difficulty(number: int) -> tuple[int, int, int]:
        pod = problem.pods[number]
        return len(pod.places), -sum(w * r for w, r in zip(problem.weights, pod.requests, strict=True)), number

    for number in sorted(range(len(choices)), key=difficulty):
        pod, before = problem.pods[number], choices[number]
        if before.place is not None and (before.backup is not None or not pod.scopes):
            continue
        load.add(pod, before, -1)
        allowed = (each for each in problem.options(pod) if before.place in (None, each.place))
        ranked = [(_rank(*each), each[0]) for each in load.offers(pod, allowed)]
        choices[number] = min(ranked)[1] if ranked else before
        load.add(pod, choices[number])
    return tuple(choices)


def _rank(choice: Choice, grown: int, shares: NDArray[np.float64]) -> tuple[bool, bool, int, float, tuple[int, ...]]:
    """Ranks an offer: a place and a backup first, then the least reserve, then the emptiest nodes."""
    nodes = tuple(node for node in choice if node is not None)
    fullest = max((float(shares[node]) for node in nodes), default=0.0)
    return choice.place is None, choice.backup is None, grown, fullest, nodes
