"""Packs as many sets as possible in a small cluster, exactly, with CP-SAT. Imported when `plan fit` leaves a gap."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from leadsman.planning.backups.backup_plan import FailureDomain
from leadsman.planning.capacity.fit_problem import Packing, Problem, Spread

WORK = 10.0
"""Of CP-SAT's deterministic time for one question: as many seconds on a machine of today. With one worker and no limit
by the wall the same question has the same answer."""


def exact_packing(
    problem: Problem, least: int, most: int, refused: Sequence[Packing] = ()
) -> tuple[Packing | None, int]:
    """A PackingSolver: the packing with the most sets, and how many are proven not to be exceeded."""
    model = _PackingModel(problem, least, most)
    for each in refused:
        model.refuse(each)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = WORK
    status = solver.solve(model.model)
    if status == cp_model.INFEASIBLE:
        return None, least - 1
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, most
    return model.packing(solver), min(most, int(solver.best_objective_bound + 1e-6))


class _PackingModel:
    """How many pods of each template run on each node, and how many of those have each other node as their backup."""

    def __init__(self, problem: Problem, least: int, most: int) -> None:
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
        self._add_quotas()
        self.model.maximize(sets)

    def packing(self, solver: cp_model.CpSolver) -> Packing:
        """The packing of a solution."""
        runs = np.zeros((len(self._problem.templates), len(self._nodes)), np.int64)
        for at, var in self._runs.items():
            runs[at] = solver.value(var)
        backups = {}
        for at, taking in self._backups.items():
            if runs[at]:
                backups[at] = {node: taken for node, var in taking.items() if (taken := solver.value(var))}
        return Packing(runs, backups)

    def refuse(self, packing: Packing) -> None:
        """Any other packing: at least one of its numbers is another one."""
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
        for backup in np.flatnonzero(template.backups_for(failing)).tolist():
            if not set(failing) & set(room.domains[backup]):
                taking[backup] = self.model.new_int_var(0, pods, "")
                for domain in failing:
                    self._falling[backup][domain].append((number, taking[backup]))
        self.model.add(sum(taking.values()) == self._runs[number, node])

    def _add_room(self, node: int) -> None:
        """What runs on a node and what the worst failure brings there fit, resource by resource."""
        templates, ledger = self._problem.templates, self._problem.ledger()
        free, reserved = ledger.free[node].tolist(), ledger.reserved[node].tolist()
        for column, room in enumerate(free):
            asking = [number for number, each in enumerate(templates) if each.amounts[column]]
            amounts = [int(each.amounts[column]) for each in templates]
            used = sum(amounts[number] * var for number in asking for var in self._on(number, [node]))
            self.model.add(used <= max(room - reserved[column], 0))
            for domain, falling in self._falling[node].items():
                fixed = ledger.needs.get(domain, {}).get(node)
                needed = sum(amounts[number] * var for number, var in falling)
                self.model.add(used + needed <= max(room - (0 if fixed is None else int(fixed[column])), 0))

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

    def _add_quotas(self) -> None:
        """Pods can be created, and those of any failure made again while the dead ones still count."""
        room, templates = self._problem.room, self._problem.templates
        for quota in self._problem.quotas:
            if not any(quota.per_pod):
                continue
            created = sum(quota.per_pod[number] * var for (number, _), var in self._runs.items())
            again = defaultdict(list)
            for (number, node), var in self._runs.items():
                for domain in room.survived(node, templates[number].scopes):
                    again[domain].append(quota.per_pod[number] * var)
            self.model.add(created <= quota.left - max(quota.made_again.values(), default=0))
            for domain, falling in again.items():
                self.model.add(created + sum(falling) + quota.made_again.get(domain, 0) <= quota.left)
