"""The last decisions, for those who ask why. In memory only, bounded in number and in the nodes that it keeps alive."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from decision.decide import Judged, Ranked
from decision.model import Decision, Facts, Pod

MOST_PODS = 256
MOST_NODES = 60_000
"""Nodes asked about plus nodes in snapshots, each snapshot once. A node's records take about 6 KB with 16 peers."""


class Entry(Struct, frozen=True):
    """What filter (judged) and prioritize (ranked) decided on a pod, each with its facts. None: it was not asked.

    decided_at: the extender's monotonic seconds of the later of the two.
    """

    pod: Pod
    nodes: tuple[str, ...]
    decided_at: float
    judged: Judged | None = None
    judged_on: Facts | None = None
    ranked: Ranked | None = None
    ranked_on: Facts | None = None

    @property
    def facts(self) -> tuple[Facts, ...]:
        return tuple(facts for facts in (self.judged_on, self.ranked_on) if facts)

    @property
    def decision(self) -> Decision:
        kept, refused = self.judged or (self.nodes, {})
        ranked = self.ranked or Ranked((), {}, "")
        return Decision(self.pod, kept, refused, *ranked)


class Journal:
    def __init__(self, most_pods: int = MOST_PODS, most_nodes: int = MOST_NODES) -> None:
        self.most_pods, self.most_nodes = most_pods, most_nodes
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._snapshots: dict[int, int] = {}
        self.nodes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def filtered(self, pod: Pod, nodes: tuple[str, ...], judged: Judged, facts: Facts) -> None:
        """A filter call begins a new decision."""
        self._put(Entry(pod, nodes, facts.now, judged, facts))

    def prioritized(self, pod: Pod, nodes: tuple[str, ...], ranked: Ranked, facts: Facts) -> None:
        """Completes the pod's filter call. A pod that was not filtered here has scores only."""
        before = self.get(pod.namespace, pod.name)
        if before is None or before.pod.uid != pod.uid or before.ranked:
            before = Entry(pod, nodes, facts.now)
        self._put(structs.replace(before, ranked=ranked, ranked_on=facts, decided_at=facts.now))

    def get(self, namespace: str, name: str) -> Entry | None:
        return self._entries.get((namespace, name))

    def newest(self, most: int) -> Sequence[Entry]:
        return list(self._entries.values())[: -most - 1 : -1]

    def _put(self, entry: Entry) -> None:
        key = (entry.pod.namespace, entry.pod.name)
        self._hold(entry, 1)
        if before := self._entries.pop(key, None):
            self._hold(before, -1)
        self._entries[key] = entry
        while len(self._entries) > self.most_pods or self._too_many_nodes():
            self._hold(self._entries.popitem(last=False)[1], -1)

    def _too_many_nodes(self) -> bool:
        """The newest entry stays, however large."""
        return self.nodes > self.most_nodes and len(self._entries) > 1

    def _hold(self, entry: Entry, step: int) -> None:
        self.nodes += step * len(entry.nodes)
        for facts in entry.facts:
            self._hold_snapshot(facts.snapshot.nodes, step)

    def _hold_snapshot(self, nodes: Mapping[str, object], step: int) -> None:
        holders = self._snapshots.pop(id(nodes), 0)
        if holders + step > 0:
            self._snapshots[id(nodes)] = holders + step
        self.nodes += len(nodes) * ((holders + step > 0) - (holders > 0))
