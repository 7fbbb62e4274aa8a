"""Keeps the last decisions to explain them, in memory only and bounded in number and bytes."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from leadsman.decision.decide import FilterResult, ScoreResult
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Decision, PodInfo
from leadsman.state.snapshot import NodeState, Snapshot, changed_nodes

MAX_PODS = 256
MAX_BYTES = 48 << 20
"""The journal keeps this much beside the newest snapshot: see Journal.held_bytes."""

CANDIDATE_BYTES = 150
"""Memory that one candidate node takes in a decision: its name, refusal, values and score. Measured at 5,000 nodes with
a delay bound."""

NODE_STATE_BYTES = 1_500
"""Memory that a node's records with 7 metrics take, without what stands in them by peer; measured."""

WINDOW_BYTES = 300
"""Memory that a window takes with all its fields and the peer's name, measured. The store admits 4 KiB of windows a
node."""

LOSSES_BYTES = 100
"""Memory that one peer takes in a node's reachability, measured: a name and a slot of a table."""

PAIR_BYTES = 250
"""Each label and annotation that is kept of a pod takes this beside its text: two strings and a slot of a table."""

TABLE_SLOT_BYTES = 60
"""Memory that each node takes in a snapshot's table of states, measured. Its table of usage is mostly shared."""


FORGET_SECONDS = 400.0
"""kube-scheduler tries a pod again after 300 s at the latest: one that it does not try any more is placed or gone."""


class JournalEntry(Struct, frozen=True):
    """Says what filter and prioritize decided on a pod, each with the inputs it was decided on.

    nodes: the candidates.
    decided_at: monotonic seconds of the later of the two.
    filter_result, filter_inputs: None when filter was not called here.
    score_result, score_inputs: None when prioritize was not called here.
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
        return tuple(inputs for inputs in (self.filter_inputs, self.score_inputs) if inputs)

    @property
    def pod_bytes(self) -> int:
        """Estimates the memory of the pod's labels and annotations."""
        pairs = (*self.pod.labels.items(), *self.pod.annotations.items())
        return sum(PAIR_BYTES + len(key) + len(value) for key, value in pairs)

    @property
    def decision(self) -> Decision:
        kept, refused = self.filter_result or (self.nodes, {})
        return Decision(self.pod, kept, refused, *(self.score_result or ScoreResult((), {}, "")))

    def waits(self, now: float) -> bool:
        """Tells whether no node passed the pod and kube-scheduler may still try it. now: monotonic."""
        return not self.decision.kept and now - self.decided_at < FORGET_SECONDS


class RefusedPod(Struct, frozen=True):
    """A pod that no node passed. since: its first attempt in a row, tried_at: its last."""

    namespace: str
    name: str
    uid: str
    since: float
    tried_at: float


SCHEDULING_ATTEMPT_SECONDS = 5.0
"""kube-scheduler asks for scores, or preempts, right after it filtered: an older entry is of another attempt."""


class Journal:
    """Keeps the last decision on each pod; the oldest go first when there are too many or they are too large."""

    def __init__(self, max_pods: int = MAX_PODS, max_bytes: int = MAX_BYTES) -> None:
        self.max_pods, self.max_bytes = max_pods, max_bytes
        self._entries: OrderedDict[tuple[str, str], JournalEntry] = OrderedDict()
        self._snapshots = _HeldSnapshots()
        self._candidates = self._pod_bytes = 0
        self._refused: dict[str, RefusedPod] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        """Estimates the memory of all entries, without the node states of the newest snapshot: the process has those
        anyway, as its current state, until the nodes report again."""
        return (
            CANDIDATE_BYTES * self._candidates
            + self._snapshots.older_bytes
            + TABLE_SLOT_BYTES * self._snapshots.slots
            + self._pod_bytes
        )

    def record_filter(
        self, pod: PodInfo, nodes: tuple[str, ...], filter_result: FilterResult, inputs: DecisionInputs
    ) -> None:
        """Begins a new entry: a filter call begins a new decision."""
        self._put(JournalEntry(pod, nodes, inputs.now, filter_result, inputs))
        self._note_attempt(pod, not filter_result.kept, inputs.now)

    def _note_attempt(self, pod: PodInfo, is_refused: bool, now: float) -> None:
        before = self._refused.pop(pod.uid, None)
        if is_refused and pod.has_delay_bounds:
            since = before.since if before else now
            self._refused[pod.uid] = RefusedPod(pod.namespace, pod.name, pod.uid, since, now)
        while self._refused and now - next(iter(self._refused.values())).tried_at >= FORGET_SECONDS:
            del self._refused[next(iter(self._refused))]

    def waiting(self, now: float) -> Sequence[RefusedPod]:
        """Returns pods with delay bounds that no node passed in their last attempt here, for FORGET_SECONDS, also those
        that were deleted, or placed by another replica, since. now: monotonic."""
        return [pod for pod in list(self._refused.values()) if now - pod.tried_at < FORGET_SECONDS]

    def record_prioritize(
        self, pod: PodInfo, nodes: tuple[str, ...], score_result: ScoreResult, inputs: DecisionInputs
    ) -> None:
        """Completes the entry of the pod's filter call; a pod that was not filtered here has scores only."""
        entry = self.of_attempt(pod, inputs.now)
        if entry is None or entry.score_result:
            entry = JournalEntry(pod, nodes, inputs.now)
        self._put(structs.replace(entry, score_result=score_result, score_inputs=inputs, decided_at=inputs.now))

    def get(self, namespace: str, name: str) -> JournalEntry | None:
        return self._entries.get((namespace, name))

    def of_attempt(self, pod: PodInfo, now: float) -> JournalEntry | None:
        """Returns the entry of this attempt to place the pod. None: there is none, or it is of an older attempt or of
        another pod of the same name."""
        entry = self.get(pod.namespace, pod.name)
        is_this = entry and entry.pod.uid == pod.uid and now - entry.decided_at < SCHEDULING_ATTEMPT_SECONDS
        return entry if is_this else None

    def newest(self, limit: int) -> Sequence[JournalEntry]:
        """Returns at most `limit` entries, the newest first."""
        return list(self._entries.values())[: -limit - 1 : -1]

    def _put(self, entry: JournalEntry) -> None:
        key = (entry.pod.namespace, entry.pod.name)
        self._count_held(entry, 1)
        if replaced := self._entries.pop(key, None):
            self._count_held(replaced, -1)
        self._entries[key] = entry
        while len(self._entries) > self.max_pods or self._too_large():
            self._count_held(self._entries.popitem(last=False)[1], -1)

    def _too_large(self) -> bool:
        """Tells whether the journal is too large; its newest entry stays, however large."""
        return self.held_bytes > self.max_bytes and len(self._entries) > 1

    def _count_held(self, entry: JournalEntry, step: int) -> None:
        self._candidates += step * len(entry.nodes)
        self._pod_bytes += step * entry.pod_bytes
        for inputs in entry.inputs:
            self._snapshots.hold(inputs.snapshot, step)


class _HeldSnapshot(Struct, eq=False):
    """A snapshot that entries hold.

    held_bytes: of all its node states. gone_bytes: of those that the next held snapshot has no more.
    holders: results that were decided on it.
    """

    snapshot: Snapshot
    held_bytes: int
    gone_bytes: int = 0
    holders: int = 0


class _HeldSnapshots:
    """The snapshots that entries hold, oldest first.

    older_bytes: estimated memory of the states that are not in the newest of them, at most.
    slots: entries of their node tables.
    """

    def __init__(self) -> None:
        self._held: dict[int, _HeldSnapshot] = {}
        self.older_bytes = self.slots = 0

    def hold(self, snapshot: Snapshot, step: int) -> None:
        held = self._held.get(id(snapshot.nodes)) or self._add(snapshot)
        held.holders += step
        if not held.holders:
            self._drop(held)

    def _add(self, snapshot: Snapshot) -> _HeldSnapshot:
        before = next(reversed(self._held.values())) if self._held else _HeldSnapshot(Snapshot(), 0)
        changed = changed_nodes(before.snapshot, snapshot)
        came, gone = (_bytes_of(map(each.nodes.get, changed)) for each in (snapshot, before.snapshot))
        before.gone_bytes = gone
        self.older_bytes += gone
        self.slots += len(snapshot.nodes)
        held = self._held[id(snapshot.nodes)] = _HeldSnapshot(snapshot, before.held_bytes + came - gone)
        return held

    def _drop(self, held: _HeldSnapshot) -> None:
        """Its states that the next one has no more go, unless the one before shares them: that is not known exactly."""
        order = list(self._held.values())
        at = order.index(held)
        del self._held[id(held.snapshot.nodes)]
        self.slots -= len(held.snapshot.nodes)
        self.older_bytes -= held.gone_bytes
        if at:
            before, is_newest = order[at - 1], at == len(order) - 1
            gone = 0 if is_newest else min(before.held_bytes, before.gone_bytes + held.gone_bytes)
            self.older_bytes += gone - before.gone_bytes
            before.gone_bytes = gone


def _bytes_of(states: Iterable[NodeState | None]) -> int:
    return sum(_state_bytes(state) for state in states if state is not None)


def _state_bytes(state: NodeState) -> int:
    windows = len(state.latency.peers) if state.latency else 0
    losses = len(state.reachability.losses) if state.reachability else 0
    return NODE_STATE_BYTES + WINDOW_BYTES * windows + LOSSES_BYTES * losses
