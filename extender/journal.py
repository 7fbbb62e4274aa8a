"""The last decisions, for those who ask why. In memory only, bounded in number and in bytes."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import is_

from msgspec import Struct, structs

from leadsman.decision.decide import FilterResult, ScoreResult
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Decision, PodInfo
from leadsman.state.snapshot import NodeState

MAX_PODS = 256
MAX_BYTES = 64 << 20

CANDIDATE_BYTES = 150
"""Of each node asked about: its name, refusal, values and score. Measured at 5,000 nodes with a delay bound."""

NODE_STATE_BYTES = 4_500
"""Of a node's records with 16 peers and 7 metrics, measured. Counted once for all snapshots that share them."""

TABLE_SLOT_BYTES = 30
"""Of each node in a snapshot's table."""

NodeStates = Mapping[str, NodeState]


class JournalEntry(Struct, frozen=True):
    """What filter (judged) and prioritize (ranked) decided on a pod, each with its facts. None: it was not asked.

    decided_at: the extender's monotonic seconds of the later of the two.
    """

    pod: PodInfo
    nodes: tuple[str, ...]
    decided_at: float
    filter_result: FilterResult | None = None
    filter_inputs: DecisionInputs | None = None
    score_result: ScoreResult | None = None
    score_inputs: DecisionInputs | None = None

    @property
    def inputs(self) -> tuple[DecisionInputs, ...]:
        return tuple(facts for facts in (self.filter_inputs, self.score_inputs) if facts)

    @property
    def decision(self) -> Decision:
        kept, refused = self.filter_result or (self.nodes, {})
        ranked = self.score_result or ScoreResult((), {}, "")
        return Decision(self.pod, kept, refused, *ranked)


class Journal:
    """nodes: those asked about, plus states held, of which those that snapshots share count once."""

    def __init__(self, most_pods: int = MAX_PODS, most_bytes: int = MAX_BYTES) -> None:
        self.max_pods, self.max_bytes = most_pods, most_bytes
        self._entries: OrderedDict[tuple[str, str], JournalEntry] = OrderedDict()
        self._snapshots = _HeldSnapshots()
        self._candidates = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_nodes(self) -> int:
        return self._candidates + self._snapshots.states

    @property
    def held_bytes(self) -> int:
        """About what a kept decision costs, all together."""
        return (
            CANDIDATE_BYTES * self._candidates
            + NODE_STATE_BYTES * self._snapshots.states
            + TABLE_SLOT_BYTES * self._snapshots.slots
        )

    def record_filter(self, pod: PodInfo, nodes: tuple[str, ...], judged: FilterResult, facts: DecisionInputs) -> None:
        """A filter call begins a new decision."""
        self._put(JournalEntry(pod, nodes, facts.now, judged, facts))

    def record_prioritize(
        self, pod: PodInfo, nodes: tuple[str, ...], ranked: ScoreResult, facts: DecisionInputs
    ) -> None:
        """Completes the pod's filter call. A pod that was not filtered here has scores only."""
        before = self.get(pod.namespace, pod.name)
        if before is None or before.pod.uid != pod.uid or before.score_result:
            before = JournalEntry(pod, nodes, facts.now)
        self._put(structs.replace(before, score_result=ranked, score_inputs=facts, decided_at=facts.now))

    def get(self, namespace: str, name: str) -> JournalEntry | None:
        return self._entries.get((namespace, name))

    def newest(self, most: int) -> Sequence[JournalEntry]:
        return list(self._entries.values())[: -most - 1 : -1]

    def _put(self, entry: JournalEntry) -> None:
        key = (entry.pod.namespace, entry.pod.name)
        self._count_held(entry, 1)
        if before := self._entries.pop(key, None):
            self._count_held(before, -1)
        self._entries[key] = entry
        while len(self._entries) > self.max_pods or self._too_large():
            self._count_held(self._entries.popitem(last=False)[1], -1)

    def _too_large(self) -> bool:
        """The newest entry stays, however large."""
        return self.held_bytes > self.max_bytes and len(self._entries) > 1

    def _count_held(self, entry: JournalEntry, step: int) -> None:
        self._candidates += step * len(entry.nodes)
        for facts in entry.inputs:
            self._snapshots.hold(facts.snapshot.nodes, step)


class _HeldSnapshot(Struct, eq=False):
    """added: states that the snapshot held before this one has not."""

    states: NodeStates
    added: int
    holders: int = 0


class _HeldSnapshots:
    """Those that entries hold, in the order they came. states: in all of them, at most. slots: of their tables."""

    def __init__(self) -> None:
        self._held: dict[int, _HeldSnapshot] = {}
        self.states = self.slots = 0

    def hold(self, states: NodeStates, step: int) -> None:
        held = self._held.get(id(states)) or self._add(states)
        held.holders += step
        if not held.holders:
            self._drop(held)

    def _add(self, states: NodeStates) -> _HeldSnapshot:
        before = next(reversed(self._held.values())).states if self._held else {}
        held = self._held[id(states)] = _HeldSnapshot(states, _count_new_states(before, states))
        self.states += held.added
        self.slots += len(states)
        return held

    def _drop(self, held: _HeldSnapshot) -> None:
        """What it added now counts as its successor's, who may share it."""
        order = list(self._held.values())
        del self._held[id(held.states)]
        self.states -= held.added
        self.slots -= len(held.states)
        for successor in order[order.index(held) + 1 :][:1]:
            added = min(len(successor.states), successor.added + held.added)
            self.states += added - successor.added
            successor.added = added


def _count_new_states(before: NodeStates, after: NodeStates) -> int:
    """At most: compared by position, as a snapshot's table is its predecessor's, copied and changed."""
    return len(after) - sum(map(is_, after.values(), before.values()))
