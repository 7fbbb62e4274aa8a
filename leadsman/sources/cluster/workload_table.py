"""The table of workloads behind leadsman.decision.inputs.WorkloadIndex, changed one member at a time.

A member is what proves that the workload exists: a pod, placed or not, or a ReplicaSet without pods.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from leadsman.decision.inputs import PlacedPod, PlacedPods

Member = tuple[str, str]
"""Kind and name, in the workload's namespace."""

WorkloadKey = tuple[str, str, str]
"""Namespace, kind in lower case, name."""

PodsByWorkload = Mapping[tuple[str, str], Mapping[str, PlacedPods]]
"""(namespace, name) → kind → placed pods, as WorkloadIndex.by_name."""


class WorkloadTable:
    """Workloads by member. A change costs as much as its own workload holds.

    table: as of the last `publish`, which copies only its first level.
    """

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], Mapping[str, PlacedPods]] = {}
        self.table: PodsByWorkload = MappingProxyType(self._table)
        self._members: dict[WorkloadKey, dict[Member, PlacedPod | None]] = {}
        self._workloads_by_member: dict[tuple[str, Member], tuple[WorkloadKey, ...]] = {}
        self._touched: set[WorkloadKey] = set()

    def put(self, namespace: str, member: Member, workloads: Iterable[WorkloadKey], placed: PlacedPod | None) -> None:
        """Makes the member belong to these workloads and no others. placed: None: it runs on no node."""
        self.drop(namespace, member)
        self._workloads_by_member[namespace, member] = keys = tuple(workloads)
        for workload in keys:
            self._members.setdefault(workload, {})[member] = placed
            self._touched.add(workload)

    def drop(self, namespace: str, member: Member) -> None:
        """Removes the member from all its workloads."""
        for workload in self._workloads_by_member.pop((namespace, member), ()):
            members = self._members[workload]
            del members[member]
            if not members:
                del self._members[workload]
            self._touched.add(workload)

    def publish(self) -> None:
        """Replaces `table` by one with all changes so far."""
        if not self._touched:
            return
        table = self._table.copy()
        for namespace, kind, name in self._touched:
            kinds = dict(table.pop((namespace, name), {}))
            kinds.pop(kind, None)
            members = self._members.get((namespace, kind, name))
            if members is not None:
                kinds[kind] = tuple(sorted(placed for placed in members.values() if placed))
            if kinds:
                table[namespace, name] = MappingProxyType(kinds)
        self._table, self.table = table, MappingProxyType(table)
        self._touched.clear()
