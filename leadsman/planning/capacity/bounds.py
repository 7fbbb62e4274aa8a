"""More sets than these are proven not to fit.

After a failure every pod that is to survive it is on a node that is left, beside what the running pods need there. So
whatever fits without the failed nodes is a limit, for each failure by itself. So is what fits while nothing fails.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from leadsman.planning.capacity.patterns import Patterns, patterns_of
from leadsman.planning.capacity.problem import UNKNOWN, Ints, Limit, Problem, Template, copies, reserved
from leadsman.planning.capacity.spreading import domain_caps

ROOM = "room on nodes"

SCOPES = ("node", "rack", "zone")

_PRECISION = 1 << 20


def limits(problem: Problem) -> list[Limit]:
    """What limits the sets, the least first. At least one."""
    found = [*_quota_limits(problem)]
    for template in problem.templates:
        found += [Limit(pods // template.per_set, cause) for pods, cause in _template_limits(problem, template)]
    if len(problem.templates) > 1:
        found += _total_limits(problem)
        found += _pair_limits(problem)
    return sorted(found)


def backup_room(level: int, node: str) -> str:
    """The cause of a limit by a failure. node: one that fails."""
    return (
        f"room for backups when the {SCOPES[level]} of {node} fails" if level else f"room for backups when {node} fails"
    )


def spread_total(template: Template, room: Ints) -> int:
    """The pods for which there is room under every spread by itself."""
    totals = [int(domain_caps(spread, room).sum()) for spread in template.spread]
    return min([int(room.sum()), *totals])


def _template_limits(problem: Problem, template: Template) -> Iterator[Limit]:
    room = copies(problem.free - reserved(problem), template.amounts) * template.places
    total = spread_total(template, room)
    yield Limit(total, ROOM)
    for spread in template.spread:
        if domain_caps(spread, room).sum() < room.sum():
            yield Limit(total, f"topology spread over {spread.label}")
    value = copies(problem.free, template.amounts) * template.ever

    def after(node: int, amounts: Ints) -> int:
        left = copies((problem.free[node] - amounts)[None], template.amounts)[0]
        return int(left) if value[node] else 0

    for level in range(template.scopes):
        yield from _least_outside(problem, level, value, after)


def _total_limits(problem: Problem) -> Iterator[Limit]:
    """All templates together, resource by resource."""
    surviving = [each for each in problem.templates if each.scopes]
    left = problem.free - reserved(problem)
    for column in range(len(problem.resources)):
        if asked := _asked(problem.templates, column):
            places = np.any([each.places for each in problem.templates], axis=0)
            yield Limit(int((usable(left, problem.templates, column) * places).sum()) // asked, ROOM)
        if asked := _asked(surviving, column):
            yield from _surviving_limits(problem, surviving, column, asked)


def _pair_limits(problem: Problem) -> Iterator[Limit]:
    """Every two templates, by the pairs of counts that nodes hold."""
    for first, second in combinations(range(len(problem.templates)), 2):
        patterns = patterns_of(problem, first, second)
        yield Limit(_whole(patterns.limit(patterns.weight)), ROOM)
        pair = problem.templates[first], problem.templates[second]
        scopes = min(each.scopes for each in pair)
        if scopes:
            yield from _surviving_pair_limits(problem, pair, scopes)


def _surviving_pair_limits(problem: Problem, pair: tuple[Template, Template], scopes: int) -> Iterator[Limit]:
    """What running pods need after a failure is left out, so these may be looser than the limits by resources."""
    alive = Patterns(problem.free, pair, pair[0].ever, pair[1].ever)
    value = np.ceil(alive.values(alive.weight) * _PRECISION).astype(np.int64)
    for level in range(scopes):
        for left, cause in _least_outside(problem, level, value, lambda node, _: int(value[node])):
            yield Limit(_whole(alive.sets(left / _PRECISION, alive.weight)), cause)


def _whole(sets: float) -> int:
    return math.floor(sets * (1 + 1e-9) + 1e-9)


def _asked(templates: Sequence[Template], column: int) -> int:
    return sum(int(each.amounts[column]) * each.per_set for each in templates)


def usable(free: Ints, templates: Sequence[Template], column: int) -> Ints:
    """What pods of the templates can take of one resource on each row of what is free, at most: a multiple of what all
    of their requests have in common, and no more of it than they take for what is free of each other resource."""
    requests = [int(each.amounts[column]) for each in templates]
    unit = math.gcd(*requests)
    most = free[:, column].clip(min=0)
    for other in range(free.shape[1]):
        pairs = [(asked, int(each.amounts[other])) for asked, each in zip(requests, templates, strict=True)]
        if all(amount for _, amount in pairs):
            most_a_unit = max(asked / amount for asked, amount in pairs)
            by_other = np.floor(free[:, other].clip(min=0) * most_a_unit) + 1  # 1: floats must not take anything away
            most = np.minimum(most, by_other.astype(np.int64))
    fits_any = np.max([copies(free, each.amounts) for each in templates], axis=0) > 0
    rounded: Ints = most // unit * unit * fits_any
    return rounded


def _surviving_limits(problem: Problem, surviving: list[Template], column: int, asked: int) -> Iterator[Limit]:
    nodes = np.any([each.ever for each in surviving], axis=0)
    value = usable(problem.free, surviving, column) * nodes

    def after(node: int, amounts: Ints) -> int:
        return int(usable((problem.free[node] - amounts)[None], surviving, column)[0]) if nodes[node] else 0

    for level in range(min(each.scopes for each in surviving)):
        for amount, cause in _least_outside(problem, level, value, after):
            yield Limit(amount // asked, cause)


def _least_outside(problem: Problem, level: int, value: Ints, after: Callable[[int, Ints], int]) -> Iterator[Limit]:
    """What is left of the sum of `value` when the worst domain fails.

    after: the value of a node on which running pods need these amounts then.
    """
    domain_of_node = problem.domains[:, level]
    total, inside = int(value.sum()), dict[int, int]()
    for domain, amount in zip(domain_of_node.tolist(), value.tolist(), strict=True):
        inside[domain] = inside.get(domain, 0) + amount
    left = {domain: total - amount for domain, amount in inside.items() if domain != UNKNOWN}
    for domain in left:
        for node, amounts in problem.needs.get(domain, {}).items():
            left[domain] -= int(value[node]) - after(node, amounts)
    if left:
        worst = min(left, key=lambda domain: (left[domain], domain))
        first = int(np.flatnonzero(domain_of_node == worst)[0])
        yield Limit(left[worst], backup_room(level, problem.nodes[first]))


def _quota_limits(problem: Problem) -> Iterator[Limit]:
    """The pods of a failed domain are made again while the dead ones still count: at best every domain has as many."""
    domains = len(problem.nodes)
    for quota in problem.quotas:
        pairs = list(zip(quota.per_pod, problem.templates, strict=True))
        asked = sum(used * each.per_set for used, each in pairs)
        if asked:
            again = sum(used * each.per_set for used, each in pairs if each.scopes)
            left = max(quota.left, 0)
            beside_others = max(left - max(quota.made_again.values(), default=0), 0)
            sets = min(left * domains // (asked * domains + again), beside_others // asked)
            yield Limit(sets, f"quota {quota.name}")
