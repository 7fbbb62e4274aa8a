"""Tries every packing of a small problem: what is not found does not exist."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from leadsman.planning.capacity.packing import keeps_quotas, surviving
from leadsman.planning.capacity.problem import Ints, Packing, Problem, copies, members, reserved

MOST_NODES = 12
"""Beyond, the work never suffices."""


Needs = dict[int, dict[int, Ints]]
Taken = dict[tuple[int, int], dict[int, int]]


class OutOfWork(Exception):
    """The work was used up before everything was tried."""


class _Falling:
    """Pods of one template on one node that want backups.

    allowed: nodes, in the order in which they are tried.
    """

    def __init__(self, template: int, node: int, pods: int, domains: Sequence[int], allowed: Sequence[int]) -> None:
        self.template, self.node, self.pods, self.domains, self.allowed = template, node, pods, domains, allowed


class Exhaustive:
    """The packings of a problem without spreads that `accepts` accepts. work: steps that it may take."""

    def __init__(self, problem: Problem, work: int, accepts: Callable[[Packing], bool]) -> None:
        self._problem, self._work, self._accepts = problem, work, accepts
        self._nodes_of = members(problem)
        self._free = problem.free - reserved(problem)
        self._amounts = np.array([each.amounts for each in problem.templates])
        self._widest = max(each.scopes for each in problem.templates)
        self._runs = np.zeros((len(problem.templates), len(problem.nodes)), np.int64)

    def pack(self, sets: int) -> Packing | None:
        """A packing of so many sets; None: there is none. OutOfWork."""
        return self._from(0, sets)

    def _from(self, number: int, sets: int) -> Packing | None:
        if number == len(self._problem.templates):
            return self._packing()
        template = self._problem.templates[number]
        used = self._runs[:number].T @ self._amounts[:number]
        room = copies(self._free - used, template.amounts) * template.places
        for runs in self._divisions(room.tolist(), sets * template.per_set):
            self._runs[number] = runs
            if self._backups() is not None and (found := self._from(number + 1, sets)):
                return found
        self._runs[number] = 0
        return None

    def _divisions(self, room: list[int], pods: int) -> Iterator[list[int]]:
        """Every way to divide the pods over nodes."""
        self._step()
        if not room:
            if not pods:
                yield []
            return
        rest = sum(room[1:])
        for here in range(min(room[0], pods), max(pods - rest, 0) - 1, -1):
            for others in self._divisions(room[1:], pods - here):
                yield [here, *others]

    def _packing(self) -> Packing | None:
        packing = Packing(self._runs.copy(), self._backups() or {})
        return packing if keeps_quotas(self._problem, packing) and self._accepts(packing) else None

    def _backups(self) -> dict[tuple[int, int], dict[int, int]] | None:
        """Of all pods that run; None: some cannot have one. Failures of nodes in different domains do not meet."""
        left = self._problem.free - self._runs.T @ self._amounts
        islands: dict[int, list[_Falling]] = {}
        for number, template in enumerate(self._problem.templates):
            for node in np.flatnonzero(self._runs[number]).tolist() if template.scopes else ():
                falling = self._falling(number, node)
                widest = [each for each in self._problem.domains[node, : self._widest].tolist() if each >= 0][-1]
                islands.setdefault(widest, []).append(falling)
        found: Taken = {}
        for group in islands.values():
            needs = {
                d: {n: a.copy() for n, a in self._problem.needs.get(d, {}).items()} for f in group for d in f.domains
            }
            taken: Taken = {}
            if not self._cover(group, 0, 0, needs, left, taken):
                return None
            found |= taken
        return found

    def _falling(self, number: int, node: int) -> _Falling:
        template = self._problem.templates[number]
        domains = surviving(self._problem, template, node)
        apart = set(self._nodes_of[domains[-1]].tolist())
        allowed = [each for each in np.flatnonzero(template.backups_for(domains)).tolist() if each not in apart]
        return _Falling(number, node, int(self._runs[number, node]), domains, allowed)

    def _cover(self, group: list[_Falling], at: int, first: int, needs: Needs, left: Ints, taken: Taken) -> bool:
        """Divides the pods of group[at:] over their backups, those of group[at] over allowed[first:]."""
        self._step()
        if at == len(group):
            return True
        falling = group[at]
        template = self._problem.templates[falling.template]
        key = (falling.template, falling.node)
        pending = falling.pods - sum(taken.get(key, {}).values())
        if not pending:
            return self._cover(group, at + 1, 0, needs, left, taken)
        if first == len(falling.allowed):
            return False
        backup = falling.allowed[first]
        room = min(
            int(copies((left[backup] - needs[d].get(backup, 0))[None], template.amounts)[0]) for d in falling.domains
        )
        for pods in range(min(room, pending), -1, -1):
            self._take(needs, falling, backup, pods * template.amounts)
            taken.setdefault(key, {})[backup] = pods
            if self._cover(group, at, first + 1, needs, left, taken):
                return True
            self._take(needs, falling, backup, -pods * template.amounts)
            del taken[key][backup]
        return False

    def _take(self, needs: Needs, falling: _Falling, backup: int, amounts: Ints) -> None:
        for domain in falling.domains:
            needs[domain][backup] = needs[domain].get(backup, 0) + amounts

    def _step(self) -> None:
        self._work -= 1
        if self._work < 0:
            raise OutOfWork
