"""The problem as integers: pods choose a place and a backup among nodes, and a choice of all pods has a score."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

# The problem as integers: pods choose a place and a backup among nodes, and a choice of all pods has a score.

NOWHERE = -1


class Choice(NamedTuple):
    """Of one pod. place: the node that runs it; backup: the one that takes it after a failure; each may be NOWHERE."""

    place: int
    backup: int


Choices = tuple[Choice, ...]
"""One for each pod of the problem."""

Amounts = tuple[int, ...]
"""Of each resource of the problem, in its unit."""


class PodOptions(Struct, frozen=True):
    """What one pod may choose.

    home: the node that runs it now, or NOWHERE. home_keeps: whether its bounds and constraints hold there.
    places: nodes that may run it, with its home.
    backups: nodes that keep its bounds and constraints, and so may be its backup.
    scopes: how many of a node's domains it is to survive: 1: the node; 2: its rack too; 3: its zone too; 0: it wants no
        backup, or can have none.
    """

    requests: Amounts
    home: int
    home_keeps: bool
    places: tuple[int, ...]
    backups: tuple[int, ...]
    scopes: int

    def is_unplaced(self, choice: Choice) -> bool:
        """Whether the pod would have no node that keeps its bounds."""
        return choice.place == NOWHERE or (choice.place == self.home and not self.home_keeps)

    def is_uncovered(self, choice: Choice) -> bool:
        """Whether the pod would have a node and lack the backup that it wants."""
        return self.scopes > 0 and choice.place != NOWHERE == choice.backup


class FixedNeed(Struct, frozen=True):
    """What pods that nobody moves need on `node` when `domain` fails."""

    domain: int
    node: int
    amounts: Amounts


class Problem(Struct, frozen=True):
    """All that a search looks at.

    nodes: their names; a node is its position here.
    resources, units: the name of each resource, and how many of the cluster's units one unit here is.
    weights: what reserving one unit costs.
    free: node → what is left of it by all that is not in `pods`.
    domains: node → its own domain, its rack's and its zone's; NOWHERE where one is unknown.
    """

    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    units: tuple[int, ...]
    weights: tuple[int, ...]
    free: tuple[Amounts, ...]
    domains: tuple[tuple[int, int, int], ...]
    fixed_needs: tuple[FixedNeed, ...]
    pods: tuple[PodOptions, ...]

    def domains_survived(self, pod: PodOptions, place: int) -> tuple[int, ...]:
        """The domains whose failure takes the pod at this place and that it is to survive; (): it cannot there."""
        if place == NOWHERE or not pod.scopes or self.domains[place][pod.scopes - 1] == NOWHERE:
            return ()
        return tuple(domain for domain in self.domains[place][: pod.scopes] if domain != NOWHERE)

    def options(self, pod: PodOptions) -> Iterator[Choice]:
        """Every place with every backup there, and with none."""
        for place in pod.places:
            yield Choice(place, NOWHERE)
            failing = self.domains_survived(pod, place)
            for backup in pod.backups if failing else ():
                if not set(failing) & set(self.domains[backup]):
                    yield Choice(place, backup)
        if pod.home == NOWHERE:
            yield Choice(NOWHERE, NOWHERE)


class Score(NamedTuple):
    """Of all choices; less is better, the first difference decides.

    unplaced, uncovered: pods without a node that keeps their bounds; those on a node that lack the backup they want.
    reserved: the weighted sum of what all nodes reserve.
    moves: pods that leave their node.
    imbalance: sum over nodes of the squared share of its capacity that pods use, of the resource used most.
    """

    unplaced: int
    uncovered: int
    reserved: int
    moves: int
    imbalance: float


class Load:
    """What choices use and reserve on each node.

    used: node → requests of the pods there. needs: (domain, node) → what falls there when the domain fails.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._zero = (0,) * len(problem.resources)
        self.used: list[list[int]] = [list(self._zero) for _ in problem.nodes]
        self.needs: dict[int, dict[int, list[int]]] = defaultdict(dict)
        for need in problem.fixed_needs:
            self._add_need(need.domain, need.node, need.amounts, 1)

    @classmethod
    def of(cls, problem: Problem, choices: Sequence[Choice]) -> "Load":
        load = cls(problem)
        for pod, choice in zip(problem.pods, choices, strict=True):
            load.add(pod, choice)
        return load

    def add(self, pod: PodOptions, choice: Choice, sign: int = 1) -> None:
        """Counts the pod; with sign -1, no longer."""
        if choice.place != NOWHERE:
            there = self.used[choice.place]
            for resource, amount in enumerate(pod.requests):
                there[resource] += sign * amount
        if choice.backup != NOWHERE:
            for domain in self._problem.domains_survived(pod, choice.place):
                self._add_need(domain, choice.backup, pod.requests, sign)

    def reserved(self, node: int) -> Amounts:
        """The largest need of one failure."""
        needs = self.needs.get(node)
        return tuple(map(max, zip(*needs.values(), strict=True))) if needs else self._zero

    def cost(self, node: int) -> int:
        """What is reserved on the node, weighted."""
        weights = self._problem.weights
        return sum(weight * amount for weight, amount in zip(weights, self.reserved(node), strict=True))

    def fits(self, node: int) -> bool:
        """Whether the node has room for its pods and for what it reserves."""
        asked = zip(self.used[node], self.reserved(node), self._problem.free[node], strict=True)
        return all(used + reserved <= max(free, 0) for used, reserved, free in asked)

    def share(self, node: int) -> float:
        """Of the node's capacity that pods use, of the resource used most."""
        pairs = zip(self.used[node], self._problem.free[node], strict=True)
        return max((used / max(free, 1) for used, free in pairs), default=0.0)

    def _add_need(self, domain: int, node: int, amounts: Amounts, sign: int) -> None:
        needed = self.needs[node].setdefault(domain, list(self._zero))
        for resource, amount in enumerate(amounts):
            needed[resource] += sign * amount


def score(problem: Problem, choices: Sequence[Choice]) -> Score | None:
    """None: a node has no room for what is chosen."""
    load = Load.of(problem, choices)
    nodes = range(len(problem.nodes))
    if not all(load.fits(node) for node in nodes):
        return None
    pairs = list(zip(problem.pods, choices, strict=True))
    return Score(
        unplaced=sum(pod.is_unplaced(choice) for pod, choice in pairs),
        uncovered=sum(pod.is_uncovered(choice) for pod, choice in pairs),
        reserved=sum(load.cost(node) for node in nodes),
        moves=sum(pod.home not in (NOWHERE, choice.place) for pod, choice in pairs),
        imbalance=round(sum(load.share(node) ** 2 for node in nodes), 9),
    )


def amounts_by_name(problem: Problem, amounts: Amounts) -> Mapping[str, int]:
    """In the cluster's units."""
    named = zip(problem.resources, problem.units, amounts, strict=True)
    return {name: unit * amount for name, unit, amount in named}


# The first answer, one pod after another, and the last touch: the same reserve with loads more even.


def greedy_choices(problem: Problem, start: Sequence[Choice]) -> Choices:
    """Every pod that has no place or no backup gets what reserves least, those with the fewest places first.

    start: what pods have already. A pod with a home keeps it, unless its home is not among its places.
    """
    load, choices = Load.of(problem, start), list(start)

    def difficulty(number: int) -> tuple[int, int, int]:
        pod = problem.pods[number]
        return len(pod.places), -sum(w * r for w, r in zip(problem.weights, pod.requests, strict=True)), number

    for number in sorted(range(len(choices)), key=difficulty):
        pod, before = problem.pods[number], choices[number]
        if before.place != NOWHERE and (before.backup != NOWHERE or not pod.scopes):
            continue
        load.add(pod, before, -1)
        allowed = [each for each in problem.options(pod) if before.place in (NOWHERE, each.place)]
        choices[number] = _cheapest(problem, load, pod, allowed) or before
        load.add(pod, choices[number])
    return tuple(choices)


def _cheapest(problem: Problem, load: Load, pod: PodOptions, allowed: Sequence[Choice]) -> Choice | None:
    best: tuple[tuple[bool, bool, int, float], Choice] | None = None
    for choice in allowed:
        nodes = [node for node in choice if node != NOWHERE]
        before = sum(load.cost(node) for node in nodes)
        load.add(pod, choice)
        if all(load.fits(node) for node in nodes):
            grown = sum(load.cost(node) for node in nodes) - before
            share = max((load.share(node) for node in nodes), default=0.0)
            rank = (choice.place == NOWHERE, choice.backup == NOWHERE, grown, share)
            if best is None or (rank, choice) < best:
                best = rank, choice
        load.add(pod, choice, -1)
    return best[1] if best else None


def balanced(problem: Problem, choices: Sequence[Choice], rounds: int = 3) -> Choices:
    """The choices with loads more even: no pod leaves its home for it, and no reserve grows."""
    load, found = Load.of(problem, choices), list(choices)
    for _ in range(rounds):
        changed = False
        for number, pod in enumerate(problem.pods):
            if pod.home == NOWHERE and found[number].place != NOWHERE:
                better = _more_even(problem, load, pod, found[number])
                changed |= better != found[number]
                found[number] = better
        if not changed:
            break
    return tuple(found)


def _more_even(problem: Problem, load: Load, pod: PodOptions, now: Choice) -> Choice:
    best, best_gain = now, 1e-9
    for choice in problem.options(pod):
        if choice.place in (NOWHERE, now.place) or (choice.backup == NOWHERE) != (now.backup == NOWHERE):
            continue
        nodes = {node for node in (*now, *choice) if node != NOWHERE}
        cost, imbalance = _cost(load, nodes), _imbalance(load, nodes)
        load.add(pod, now, -1)
        load.add(pod, choice)
        gain = imbalance - _imbalance(load, nodes)
        if gain > best_gain and _cost(load, nodes) <= cost and all(load.fits(node) for node in nodes):
            best, best_gain = choice, gain
        load.add(pod, choice, -1)
        load.add(pod, now)
    if best != now:
        load.add(pod, now, -1)
        load.add(pod, best)
    return best


def _cost(load: Load, nodes: set[int]) -> int:
    return sum(load.cost(node) for node in nodes)


def _imbalance(load: Load, nodes: set[int]) -> float:
    return sum(load.share(node) ** 2 for node in sorted(nodes))
