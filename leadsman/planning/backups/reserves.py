"""How much each node reserves: the largest sum of requests that one failure brings there.

Amounts stand in arrays with a row for each node and a column for each resource, so the cost of a pod on every node is
computed at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from leadsman.cluster.resources import ZERO, Resources
from leadsman.planning.backups.backup_plan import FailureDomain

Amounts = NDArray[np.int64]


class ReserveLedger:
    """The room that failures need on each node, and what is reserved for the worst of them.

    free: node → what ordinary pods leave of it.
    requests: of all pods that may be added; their resources are the columns.
    """

    def __init__(self, free: Mapping[str, Resources], requests: Iterable[Resources]) -> None:
        self.nodes: Sequence[str] = tuple(free)
        self._position = {node: position for position, node in enumerate(self.nodes)}
        self._columns = sorted({name for request in requests for name, _ in request.items()})
        self._free = np.array([self._amounts(free[node]) for node in self.nodes], np.int64).reshape(len(self.nodes), -1)
        self._reserved = np.zeros_like(self._free)
        self._needed: dict[FailureDomain, dict[int, Amounts]] = defaultdict(dict)
        self._domains_at: dict[int, set[FailureDomain]] = defaultdict(set)
        self._total = np.maximum(self._free.clip(min=0).sum(axis=0), 1).astype(np.float64)

    def growth(self, requests: Resources, domains: Iterable[FailureDomain]) -> tuple[NDArray[np.float64], Amounts]:
        """What a pod that falls in `domains` adds to the reserve of each node, as a share of all that is free, and
        what would be left free there by it; negative: it does not fit."""
        needed = self._reserved.copy()
        for domain in domains:
            by_failure = np.zeros_like(self._reserved)
            for position, amounts in self._needed[domain].items():
                by_failure[position] = amounts
            np.maximum(needed, by_failure + self._amounts(requests), out=needed)
        share: NDArray[np.float64] = ((needed - self._reserved) / self._total).sum(axis=1)
        asked = np.array(self._amounts(requests)) > 0
        left = np.where(asked, self._free - needed, 0).min(axis=1) if len(self._columns) else self._free.sum(axis=1)
        return share, left

    def add(self, requests: Resources, domains: Iterable[FailureDomain], node: str) -> None:
        """Counts a pod that goes to `node` when any of `domains` fails."""
        self._change(requests, domains, self._position[node], 1)

    def remove(self, requests: Resources, domains: Iterable[FailureDomain], node: str) -> None:
        """Undoes `add`."""
        self._change(requests, domains, self._position[node], -1)

    def share(self, requests: Resources) -> float:
        """These requests as a share of all that is free, summed over resources."""
        return float((np.array(self._amounts(requests)) / self._total).sum())

    def total_share(self) -> float:
        """All that is reserved, as a share of all that is free, summed over resources."""
        return float((self._reserved.sum(axis=0) / self._total).sum())

    def reserves(self) -> dict[str, Resources]:
        """Node → what is reserved there, without the nodes that reserve nothing."""
        rows = {node: self._resources(self._reserved[position]) for node, position in self._position.items()}
        return {node: reserved for node, reserved in rows.items() if reserved != ZERO}

    def _change(self, requests: Resources, domains: Iterable[FailureDomain], position: int, sign: int) -> None:
        amounts = sign * np.array(self._amounts(requests), np.int64)
        for domain in domains:
            needed = self._needed[domain]
            needed[position] = needed.get(position, np.zeros_like(amounts)) + amounts
            if needed[position].any():
                self._domains_at[position].add(domain)
            else:
                del needed[position]
                self._domains_at[position].discard(domain)
        worst = [self._needed[domain][position] for domain in self._domains_at[position]]
        self._reserved[position] = np.max(worst, axis=0) if worst else 0

    def _amounts(self, resources: Resources) -> list[int]:
        return [resources.amount(name) for name in self._columns]

    def _resources(self, row: Amounts) -> Resources:
        amounts = dict(zip(self._columns, row.tolist(), strict=True))
        cpu, memory, pods = (amounts.pop(name, 0) for name in ("cpu", "memory", "pods"))
        return Resources(cpu, memory, pods, {name: amount for name, amount in amounts.items() if amount})
