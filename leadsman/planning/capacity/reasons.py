"""Why a node takes no more pods of a template, once all that fit are there."""

from collections import Counter

import numpy as np
from msgspec import Struct

from leadsman.planning.capacity.bounds import ROOM, SCOPES
from leadsman.planning.capacity.count import NO_DIVISION, Count
from leadsman.planning.capacity.model import CapacityModel
from leadsman.planning.capacity.packing import Ledger, surviving
from leadsman.planning.capacity.problem import Packing, Problem, copies

NO_NODES = "the cluster has no nodes"


class Reasons(Struct, frozen=True):
    """binds: what limits the count first. nodes: reason → nodes that take no more for it, the most frequent first."""

    binds: str
    nodes: dict[str, int]


def reasons(model: CapacityModel, template: int, count: Count) -> Reasons:
    """The reasons for one template of a count."""
    full, refused = Counter[str](), Counter[str]()
    ledger, wants = ledger_after(model.problem, count.packing), model.problem.templates[template]
    left = copies(ledger.free - ledger.reserved, wants.amounts)
    for number, node in enumerate(model.problem.nodes):
        if node in model.refusals[template]:
            refused[model.refusals[template][node]] += 1
        elif not wants.places[number]:
            unknown = model.problem.domains[number, wants.scopes - 1] < 0 if wants.scopes else False
            what = f"its {SCOPES[wants.scopes - 1]} is unknown" if unknown else "a bound would break after a failure"
            refused[f"{what}, so its pods could have no backup"] += 1
        elif left[number]:
            full[count.cause if count.cause != ROOM else NO_DIVISION] += 1
        else:
            full[_short(model.problem, ledger, number, template)] += 1
    binds = count.cause
    if binds == ROOM or not full:
        binds = next((reason for reason, _ in _ordered(full) + _ordered(refused)), NO_NODES)
    return Reasons(binds, dict(_ordered(full) + _ordered(refused)))


def ledger_after(problem: Problem, packing: Packing) -> Ledger:
    """What is left when a packing is there."""
    ledger = Ledger(problem)
    for number, template in enumerate(problem.templates):
        ledger.run(template, packing.runs[number])
    for (number, node), taking in packing.backups.items():
        template = problem.templates[number]
        for backup, pods in taking.items():
            ledger.fall(template, surviving(problem, template, node), backup, pods)
    return ledger


def _short(problem: Problem, ledger: Ledger, node: int, template: int) -> str:
    """The resources of which the node has too little, and whether a reserve holds them."""
    amounts = problem.templates[template].amounts
    free, reserve = ledger.free[node], ledger.reserved[node]
    short = np.flatnonzero((amounts > 0) & (free - reserve < amounts)).tolist()
    held = all(free[each] >= amounts[each] for each in short)
    names = ", ".join(problem.resources[each] for each in short)
    return f"{names} (reserved for backups)" if held else names


def _ordered(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))
