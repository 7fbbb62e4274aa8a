"""The last decisions, for those who ask why. In memory only, bounded in number and in bytes."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import is_

from msgspec import Struct, structs

from clusterstate.snapshot import NodeState
from decision.decide import Judged, Ranked
from decision.model import Decision, Facts, Pod

MOST_PODS = 256
MOST_BYTES = 64 << 20

ASKED_BYTES = 150
"""Of each node asked about: its name, refusal, values and score. Measured at 5,000 nodes with a delay bound."""

STATE_BYTES = 4_500
"""Of a node's records with 16 peers and 7 metrics, measured. Counted once for all snapshots that share them."""

SLOT_BYTES = 30
"""Of each node in a snapshot's table."""

States = Mapping[str, NodeState]


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
    """nodes: those asked about, plus states held, of which those that snapshots share count once."""

    def __init__(self, most_pods: int = MOST_PODS, most_bytes: int = MOST_BYTES) -> None:
        self.most_pods, self.most_bytes = most_pods, most_bytes
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._snapshots = _Snapshots()
        self._asked = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nodes(self) -> int:
        return self._asked + self._snapshots.states

    @property
    def held_bytes(self) -> int:
        """About what a kept decision costs, all together."""
        return ASKED_BYTES * self._asked + STATE_BYTES * self._snapshots.states + SLOT_BYTES * self._snapshots.slots

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
        while len(self._entries) > self.most_pods or self._too_large():
            self._hold(self._entries.popitem(last=False)[1], -1)

    def _too_large(self) -> bool:
        """The newest entry stays, however large."""
        return self.held_bytes > self.most_bytes and len(self._entries) > 1

    def _hold(self, entry: Entry, step: int) -> None:
        self._asked += step * len(entry.nodes)
        for facts in entry.facts:
            self._snapshots.hold(facts.snapshot.nodes, step)


class _Held(Struct, eq=False):
    """added: states that the snapshot held before this one has not."""

    states: States
    added: int
    holders: int = 0


class _Snapshots:
    """Those that entries hold, in the order they came. states: in all of them, at most. slots: of their tables."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self.states = self.slots = 0

    def hold(self, states: States, step: int) -> None:
        held = self._held.get(id(states)) or self._add(states)
        held.holders += step
        if not held.holders:
            self._drop(held)

    def _add(self, states: States) -> _Held:
        before = next(reversed(self._held.values())).states if self._held else {}
        held = self._held[id(states)] = _Held(states, _added(before, states))
        self.states += held.added
        self.slots += len(states)
        return held

    def _drop(self, held: _Held) -> None:
        """What it added now counts as its successor's, who may share it."""
        order = list(self._held.values())
        del self._held[id(held.states)]
        self.states -= held.added
        self.slots -= len(held.states)
        for successor in order[order.index(held) + 1 :][:1]:
            added = min(len(successor.states), successor.added + held.added)
            self.states += added - successor.added
            successor.added = added


def _added(before: States, after: States) -> int:
    """At most: compared by position, as a snapshot's table is its predecessor's, copied and changed."""
    return len(after) - sum(map(is_, after.values(), before.values()))
