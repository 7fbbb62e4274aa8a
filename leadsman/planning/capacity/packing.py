"""Puts sets of pods on nodes and gives them backups, template by template: what it reaches does fit.

One way spreads a template's pods over nodes in proportion to the room there; another, for two templates, divides them
by the pairs of counts that nodes hold. Backups fill the same few nodes for every failure, because failures share what
is reserved.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.planning.backups.backup_plan import FailureDomain
from leadsman.planning.backups.reserve import Ints, ReserveLedger, Room, copies

# The problem in integers: the room of a cluster, and the templates that are to fit.

Mask = NDArray[np.bool_]


class Spread(Struct, frozen=True, eq=False):
    """A topology spread constraint that counts the template's own pods.

    domain_of_node: node → domain; negative: it has no label, so the template does not run there.
    present: domain → pods that count there now. counted: whether the domain is looked at for the least.
    enough_domains: False: fewer domains than minDomains, so the least is 0.
    """

    label: str
    domain_of_node: Ints
    present: Ints
    counted: Mask
    max_skew: int
    enough_domains: bool


class Template(Struct, frozen=True, eq=False):
    """Pods that are alike.

    per_set: how many of them a set has.
    amounts: what one takes of each resource.
    places: nodes that may run it, whatever their room. backups: nodes that may take it after a failure.
    scopes: how many of its node's domains it is to survive: 1: the node; 2: its rack too; 3: its zone too; 0: none.
    """

    name: str
    per_set: int
    amounts: Ints
    places: Mask
    backups: Mask
    scopes: int = 0
    spread: tuple[Spread, ...] = ()

    @property
    def ever(self) -> Mask:
        """Marks the nodes that may have a pod at some time."""
        allowed: Mask = self.places | self.backups
        return allowed


class Problem(Struct, frozen=True, eq=False):
    """All that a count looks at."""

    room: Room
    templates: tuple[Template, ...]

    def ledger(self) -> ReserveLedger:
        """Returns what there is before any new pod."""
        return ReserveLedger(self.room.free, self.room.needs)


class Packing(Struct, frozen=True, eq=False):
    """Says where sets of pods go.

    runs: (templates, N): pods on each node.
    backups: (template, node) → backup node → pods of the node that it takes.
    """

    runs: Ints
    backups: Mapping[tuple[int, int], Mapping[int, int]]


class Limit(NamedTuple):
    """No more sets than this fit, because of `cause`."""

    sets: int
    cause: str


def domain_caps(spread: Spread, room: Ints) -> Ints:
    """Maps each domain to the most pods that can be added, bound one after another in the best order.

    room: node → pods for which it has room. The last pod of a domain needs max_skew more than the least populated one
    at most, and every domain can be filled up to that one first: so the least populated at the end decides.
    """
    by_domain = _by_domain(spread, room)
    full = spread.present + by_domain
    least = int(full[spread.counted].min()) if spread.enough_domains and spread.counted.any() else 0
    caps: Ints = np.minimum(by_domain, (least + spread.max_skew - spread.present).clip(min=0))
    return caps


def divided(spread: Spread, room: Ints, pods: int) -> Ints:
    """Domain → how many of the pods go there, the least populated first. `pods` fit: domain_caps has as many."""
    caps = domain_caps(spread, room)
    low, high = 0, int((spread.present + caps).max(initial=0))
    while low < high:
        level = (low + high) // 2
        if _filled(spread, caps, level).sum() >= pods:
            high = level
        else:
            low = level + 1
    added = _filled(spread, caps, low)
    for domain in np.flatnonzero(added + spread.present == low)[::-1].tolist():
        if added.sum() > pods and added[domain]:
            added[domain] -= 1
    return added


def _filled(spread: Spread, caps: Ints, level: int) -> Ints:
    filled: Ints = np.minimum(caps, (level - spread.present).clip(min=0))
    return filled


def _by_domain(spread: Spread, room: Ints) -> Ints:
    there = spread.domain_of_node >= 0
    sums = np.bincount(spread.domain_of_node[there], room[there], minlength=len(spread.present))
    return sums.astype(np.int64)


Floats = NDArray[np.float64]

_STEPS = 40
"""The search for a weight takes this many steps."""

_NEAR = 1e-6


class Patterns:
    """Two templates on the same nodes: every pair of counts that a node holds, and what all nodes together hold.

    A pod of the first is worth `weight`, one of the second the rest of 1. No division over nodes is worth more than the
    best pair of each node, which limits the sets; the weight with the least limit is searched for. Near it some nodes
    hold more of the first and some more of the second: switching from one to the other gives the division that sets
    need. Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem (1961).

    free: (nodes, resources). first, second: which nodes may have each.
    """

    def __init__(self, free: Ints, pair: tuple[Template, Template], first: Mask, second: Mask) -> None:
        self._sets = np.array([each.per_set for each in pair], np.float64)
        most = copies(free, pair[0].amounts) * first
        columns = []
        for pods in range(int(most.max(initial=0)) + 1):
            beside = copies(free - pods * pair[0].amounts, pair[1].amounts) * second
            columns.append(np.where(pods <= most, beside, -1))
        self._beside: Ints = np.array(columns)
        self.weight = self._least_limiting_weight()

    def values(self, weight: float) -> Floats:
        """Returns what the best pair of each node is worth."""
        best: Floats = self._worth(weight).max(axis=0)
        return best

    def sets(self, value: float, weight: float) -> float:
        """Says how many sets are worth as much."""
        return value / float(weight * self._sets[0] + (1 - weight) * self._sets[1])

    def limit(self, weight: float) -> float:
        """No more sets than this are worth as much as the best pair of every node."""
        return self.sets(float(self.values(weight).sum()), weight)

    def divided(self, pods: tuple[int, int]) -> Ints | None:
        """Returns (2, N) with at least so many pods of each; None: switching nodes does not reach it."""
        few, many = (self._pairs(min(max(self.weight + near, 0.0), 1.0)) for near in (-_NEAR, _NEAR))
        gained = np.cumsum(many[0] - few[0]) + few[0].sum()
        switched = int(np.searchsorted(gained, pods[0])) + 1 if few[0].sum() < pods[0] else 0
        at = np.arange(few.shape[1]) < switched
        runs: Ints = np.where(at[None], many, few)
        return runs if (runs.sum(axis=1) >= pods).all() else None

    def _pairs(self, weight: float) -> Ints:
        first = self._worth(weight).argmax(axis=0)
        return np.array([first, self._beside[first, np.arange(len(first))]])

    def _worth(self, weight: float) -> Floats:
        worth = weight * np.arange(len(self._beside))[:, None] + (1 - weight) * self._beside
        return np.where(self._beside >= 0, worth, -1.0)

    def _least_limiting_weight(self) -> float:
        """A convex function over a linear one has no second valley."""
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if self.limit(left) <= self.limit(right):
                high = right
            else:
                low = left
        return (low + high) / 2


@lru_cache(8)
def patterns_of(problem: Problem, first: int, second: int) -> Patterns:
    """Returns the patterns of two templates beside what is reserved now."""
    pair = problem.templates[first], problem.templates[second]
    ledger = problem.ledger()
    return Patterns(ledger.free - ledger.reserved, pair, pair[0].places, pair[1].places)


def pack(problem: Problem, sets: int) -> Packing | None:
    """Returns a packing of so many sets; None: neither way finds one, which proves nothing."""
    for packing in (_one_after_another(problem, sets), _by_patterns(problem, sets)):
        if packing is not None:
            return packing
    return None


def _one_after_another(problem: Problem, sets: int) -> Packing | None:
    """Packs each template on what those before it leave, the largest first."""
    ledger, nodes_of = problem.ledger(), problem.room.members()
    runs = np.zeros((len(problem.templates), len(problem.room.nodes)), np.int64)
    backups: dict[tuple[int, int], Mapping[int, int]] = {}
    for number in _largest_first(problem):
        template = problem.templates[number]
        there = _runs(template, ledger, sets * template.per_set)
        if there is None:
            return None
        runs[number] = there
        ledger.free -= there[:, None] * template.amounts
        found = _backups(problem, template, there, ledger, nodes_of)
        if found is None:
            return None
        backups |= {(number, node): taken for node, taken in found.items()}
    return Packing(runs, backups)


def _by_patterns(problem: Problem, sets: int) -> Packing | None:
    """Two templates by the pairs of counts that nodes hold; then the backups of both."""
    if len(problem.templates) != 2 or any(each.spread for each in problem.templates):
        return None
    pods = [sets * each.per_set for each in problem.templates]
    runs = patterns_of(problem, 0, 1).divided((pods[0], pods[1]))
    if runs is None:
        return None
    ledger, nodes_of = problem.ledger(), problem.room.members()
    for number, template in enumerate(problem.templates):
        kept = np.cumsum(runs[number]).clip(max=pods[number])  # so that whole nodes are left for backups
        runs[number] = np.diff(kept, prepend=0)
        ledger.free -= runs[number][:, None] * template.amounts
    backups: dict[tuple[int, int], Mapping[int, int]] = {}
    for number in _largest_first(problem):
        found = _backups(problem, problem.templates[number], runs[number], ledger, nodes_of)
        if found is None:
            return None
        backups |= {(number, node): taken for node, taken in found.items()}
    return Packing(runs, backups)


def _largest_first(problem: Problem) -> list[int]:
    total = problem.room.free.clip(min=0).sum(axis=0).clip(min=1)
    shares = [float((each.amounts / total).max()) for each in problem.templates]
    return sorted(range(len(shares)), key=lambda number: (-shares[number], number))


def _runs(template: Template, ledger: ReserveLedger, pods: int) -> Ints | None:
    room = copies(ledger.free - ledger.reserved, template.amounts) * template.places
    if room.sum() < pods:
        return None
    if not template.spread:
        return in_proportion(room, pods)
    spread = template.spread[0]
    if domain_caps(spread, room).sum() < pods:
        return None
    runs = np.zeros_like(room)
    for domain, share in enumerate(divided(spread, room, pods).tolist()):
        runs += in_proportion(room * (spread.domain_of_node == domain), share)
    return runs


def in_proportion(room: Ints, pods: int) -> Ints:
    """Returns the pods divided over nodes as their room is; never more than that."""
    total = int(room.sum())
    if not pods:
        return np.zeros_like(room)
    runs: Ints = room * pods // total
    left = room - runs
    most_left = np.argsort(-left, kind="stable")[: pods - int(runs.sum())]
    runs[most_left] += 1
    return runs


def _backups(
    problem: Problem,
    template: Template,
    runs: Ints,
    ledger: ReserveLedger,
    nodes_of: Mapping[FailureDomain, Sequence[int]],
) -> dict[int, dict[int, int]] | None:
    """Maps node → backup → pods; {} for a template that wants none. The node with the most room comes first, for every
    failure."""
    if not template.scopes:
        return {}
    room = copies(ledger.free, template.amounts) * template.ever
    order = [node for node in np.argsort(-room, kind="stable").tolist() if room[node]]
    found: dict[int, dict[int, int]] = {}
    for node in np.flatnonzero(runs).tolist():
        domains = problem.room.survived(node, template.scopes)
        apart = set(nodes_of[domains[-1]])
        allowed = template.backups
        left, taken = int(runs[node]), dict[int, int]()
        for backup in order:
            if backup in apart or not allowed[backup]:
                continue
            pods = min(left, ledger.room_after(domains, backup, template.amounts))
            if pods:
                ledger.fall(domains, backup, pods * template.amounts)
                taken[backup] = pods
                left -= pods
            if not left:
                break
        if left:
            return None
        found[node] = taken
    return found
