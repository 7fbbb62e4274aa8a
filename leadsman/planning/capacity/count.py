"""Defines how many sets fit: a number that a packing reaches, and one that is proven not to be exceeded."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, zip_longest

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import ClusterPod
from leadsman.planning.backups.backup_plan import Backup, BackupPlan, FailureDomain, broken_promises
from leadsman.planning.backups.planner import counts_on_others, stuck_pods
from leadsman.planning.backups.reserve import Ints, copies, reserves_of
from leadsman.planning.capacity.fit_model import CapacityModel, is_bound_to
from leadsman.planning.capacity.packing import (
    Limit,
    Packing,
    Patterns,
    Problem,
    Template,
    domain_caps,
    pack,
    patterns_of,
)
from leadsman.planning.situation import Situation

ROOM = "room on nodes"

_PRECISION = 1 << 20


def limits(problem: Problem) -> list[Limit]:
    """Returns what limits the sets, the least first: more are proven not to fit. At least one.

    After a failure every pod that is to survive it is on a node that is left, beside what the running pods need there.
    So whatever fits without the failed nodes is a limit, for each failure by itself, and so is what fits while nothing
    fails.
    """
    found = list[Limit]()
    for template in problem.templates:
        found += [Limit(pods // template.per_set, cause) for pods, cause in _template_limits(problem, template)]
    if len(problem.templates) > 1:
        found += _total_limits(problem)
        found += _pair_limits(problem)
    return sorted(found)


def _template_limits(problem: Problem, template: Template) -> Iterator[Limit]:
    ledger = problem.ledger()
    room = copies(ledger.free - ledger.reserved, template.amounts) * template.places
    totals = [int(domain_caps(spread, room).sum()) for spread in template.spread]
    least, total = min([int(room.sum()), *totals]), int(room.sum())
    yield Limit(least, ROOM)
    for spread, under_it in zip(template.spread, totals, strict=True):
        if under_it < total:
            yield Limit(least, f"topology spread over {spread.label}")
    value = copies(problem.room.free, template.amounts) * template.ever

    def after(nodes: Ints, amounts: Ints) -> Ints:
        return copies(problem.room.free[nodes] - amounts, template.amounts) * (value[nodes] > 0)

    for level in range(template.scopes):
        yield from _least_outside(problem, level, value, after)


def _total_limits(problem: Problem) -> Iterator[Limit]:
    """Yields limits of all templates together, resource by resource."""
    surviving = [each for each in problem.templates if each.scopes]
    ledger, free = problem.ledger(), problem.room.free
    left = (ledger.free - ledger.reserved).clip(min=0)
    places = np.any([each.places for each in problem.templates], axis=0)
    ever = np.any([each.ever for each in problem.templates], axis=0)
    for column in range(len(problem.room.resources)):
        if asked := _asked(problem.templates, column):
            yield Limit(int((left[:, column] * places).sum()) // asked, ROOM)
        if not (asked := _asked(surviving, column)):
            continue

        def after(nodes: Ints, amounts: Ints, column: int = column) -> Ints:
            left: Ints = (free[nodes, column] - amounts[:, column]).clip(min=0) * ever[nodes]
            return left

        for level in range(min(each.scopes for each in surviving)):
            for amount, cause in _least_outside(problem, level, free[:, column].clip(min=0) * ever, after):
                yield Limit(amount // asked, cause)


def _pair_limits(problem: Problem) -> Iterator[Limit]:
    """Yields limits of every two templates, by the pairs of counts that nodes hold."""
    for first, second in combinations(range(len(problem.templates)), 2):
        patterns = patterns_of(problem, first, second)
        yield Limit(_whole(patterns.limit(patterns.weight)), ROOM)
        pair = problem.templates[first], problem.templates[second]
        scopes = min(each.scopes for each in pair)
        if scopes:
            yield from _surviving_pair_limits(problem, pair, scopes)


def _surviving_pair_limits(problem: Problem, pair: tuple[Template, Template], scopes: int) -> Iterator[Limit]:
    """Yields limits after a failure. What running pods need then is left out, so these may be looser than the limits by
    resources."""
    alive = Patterns(problem.room.free, pair, pair[0].ever, pair[1].ever)
    value = np.ceil(alive.values(alive.weight) * _PRECISION).astype(np.int64)
    for level in range(scopes):
        for left, cause in _least_outside(problem, level, value, lambda nodes, _: value[nodes]):
            yield Limit(_whole(alive.sets(left / _PRECISION, alive.weight)), cause)


def _whole(sets: float) -> int:
    return math.floor(sets * (1 + 1e-9) + 1e-9)


def _asked(templates: Sequence[Template], column: int) -> int:
    return sum(int(each.amounts[column]) * each.per_set for each in templates)


def _least_outside(problem: Problem, level: int, value: Ints, after: Callable[[Ints, Ints], Ints]) -> Iterator[Limit]:
    """Returns what is left of the sum of `value` when the worst domain fails.

    after: the values of nodes on which running pods need these amounts then.
    """
    total, inside = int(value.sum()), Counter[FailureDomain]()
    for domains, amount in zip(problem.room.domains, value.tolist(), strict=True):
        if (domain := domains[level]) is not None:
            inside[domain] += amount
    left = {domain: total - amount for domain, amount in inside.items()}
    if needs := [each for each in problem.room.needs if each[0] in left]:
        nodes = np.array([node for _, node, _ in needs])
        lost = value[nodes] - after(nodes, np.array([amounts for *_, amounts in needs]))
        for (domain, *_), amount in zip(needs, lost.tolist(), strict=True):
            left[domain] -= amount
    if left:
        worst = min(left, key=lambda domain: (left[domain], domain))
        yield Limit(left[worst], f"room for backups when {worst} fails")


MOST_NODES = 12
"""The solver is asked about problems of at most so many nodes. Beyond, what it cannot prove in seconds it does not
prove in minutes."""

MOST_REFUSED = 20
"""Packings that the solver is asked to replace by another one, because judging pod by pod refused them."""

Judge = Callable[[Packing], bool]

PackingSolver = Callable[[Problem, int, int, Sequence[Packing]], tuple[Packing | None, int]]
"""Solves a problem for a number of sets from least to most. It returns the packing with the most sets that is none of
those given, None where there is none or none was found; and more sets than this are proven not to fit."""

NO_DIVISION = "no division over nodes and backups has room for one more"


class Count(Struct, frozen=True):
    """Says how many sets fit.

    sets: so many fit, as `packing` shows. at_most: more are proven not to fit; equal to `sets`: the count is exact.
    cause: what limits them.
    """

    sets: int
    at_most: int
    cause: str
    packing: Packing


def count_sets(problem: Problem, solver: PackingSolver | None = None, accepts: Judge | None = None) -> Count:
    """Returns the count of a problem.

    solver: closes the gap in a small one.
    accepts: judges a packing by what the problem's numbers leave out; what it refuses does not count. That nothing else
        is accepted proves nothing: pods that are bound one after another may get where they would not be bound last.
    """
    at_most, cause = limits(problem)[0]
    sets, packing = _packed(problem, at_most, accepts)
    refused = list[Packing]()
    while solver is not None and _is_small(problem) and sets < at_most and len(refused) < MOST_REFUSED:
        found, bound = solver(problem, sets + 1, at_most, refused)
        if bound < at_most and not refused:
            at_most, cause = bound, NO_DIVISION
        if found is None:
            break
        if accepts is None or accepts(found):
            sets, packing = int(found.runs[0].sum()) // problem.templates[0].per_set, found
        else:
            refused.append(found)
    return Count(sets, at_most, cause, packing)


def fits(problem: Problem, sets: int, solver: PackingSolver | None = None) -> bool:
    """Tells whether so many sets are shown to fit; of a small problem also by the solver."""
    if limits(problem)[0].sets < sets:
        return False
    if pack(problem, sets) is not None:
        return True
    return solver is not None and _is_small(problem) and solver(problem, sets, sets, ())[0] is not None


def _is_small(problem: Problem) -> bool:
    return len(problem.room.nodes) <= MOST_NODES


def _packed(problem: Problem, at_most: int, accepts: Judge | None) -> tuple[int, Packing]:
    """Returns the most sets that `pack` puts, by bisection after it tried all of them."""
    best, packing = 0, pack(problem, 0)
    assert packing is not None, "nothing always fits"
    low, high, sets = 1, at_most, at_most
    while low <= high:
        found = pack(problem, sets)
        if found is None or (accepts is not None and not accepts(found)):
            high = sets - 1
        else:
            best, packing, low = sets, found, sets + 1
        sets = (low + high + 1) // 2
    return best, packing


def broken(model: CapacityModel, packing: Packing) -> Mapping[str, str]:
    """Maps each pod or node to what is wrong, by the code that judges placements and failures, which knows nothing of
    the Problem.

    Empty when every new pod may be on its node, every pod with a backup survives every failure that it is to survive,
    and every node has room for its pods and for what it reserves.

    Of the new pods of a template on a node one is judged: they are alike. But those that count on others are bound one
    after another, because none may wait for one that waits for it.
    """
    situation, plan, alike = packed(model, packing)
    found = dict(broken_promises(situation, plan, model.settings.rack_label))
    for pod, *_ in alike:
        if reason := situation.verdict(pod).why_not(pod.node):
            found[pod.uid] = f"{pod.node}: {reason}"
    counting = (pods for pods in alike if _counts_on_new(pods[0], model))
    in_turn = (pod for of_each in zip_longest(*counting) for pod in of_each if pod is not None)
    return found or stuck_pods(situation, [(pod, pod.node) for pod in in_turn])


def _counts_on_new(pod: ClusterPod, model: CapacityModel) -> bool:
    return counts_on_others(pod) or any(is_bound_to(pod, each.pod) for each in model.templates)


def packed(model: CapacityModel, packing: Packing) -> tuple[Situation, BackupPlan, list[list[ClusterPod]]]:
    """Returns the situation with the new pods, the backups of all, and the new pods of each template on each node."""
    added: dict[str, ClusterPod | None] = {}
    backups, alike = dict(model.plan.pods), list[list[ClusterPod]]()
    for number, template in enumerate(model.problem.templates):
        for node in np.flatnonzero(packing.runs[number]).tolist():
            pods = list(_pods(model, packing, number, node))
            alike.append(pods)
            added |= {pod.uid: pod for pod in pods}
            taking = packing.backups.get((number, node), {})
            domains = model.problem.room.survived(node, template.scopes)
            waiting = iter(pods)
            for backup, count in taking.items():
                for _ in range(count):
                    backups[next(waiting).uid] = Backup(model.problem.room.nodes[backup], domains)
    situation, plan = model.situation.changed(added), BackupPlan(backups)
    return situation, replace(plan, reserves=reserves_of(situation.cluster, plan.backups)), alike


def _pods(model: CapacityModel, packing: Packing, number: int, node: int) -> Iterator[ClusterPod]:
    template = model.templates[number]
    for copy in range(int(packing.runs[number, node])):
        name = f"{template.pod.name}-{node}-{copy}"
        yield replace(
            template.pod, uid=f"{template.pod.uid}-{node}-{copy}", name=name, node=model.problem.room.nodes[node]
        )


def count_together(model: CapacityModel, solver: PackingSolver | None = None) -> Count:
    """Returns how many sets fit. A packing of templates that look at other pods counts only when it is judged pod by
    pod."""
    if any(model.cautions):
        return count_sets(model.problem, solver, lambda packing: not broken(model, packing))
    return count_sets(model.problem, solver)
