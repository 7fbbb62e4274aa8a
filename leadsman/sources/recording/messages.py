"""Encodes decided requests as the three kinds of messages that a recording consists of.

    Head      begins each block: format, clock, and the names of nodes that the block before brought
    Change    keys of one table of the inputs (`tables`) that changed since they were last written
    Request   a decided request and its answer; its inputs are what the changes so far say

A segment begins with all inputs. Behind that a change names its table and keys and says what they are now, so that a
block that is lost takes its own requests and changes with it and nothing else: a key is right again when it changes.
Names of nodes are numbers in requests (5,000 candidates are 60 KB as strings and some 100 bytes so), and each new name
is written in two blocks. Rows of other delay sources and of the estimates are written when a request first asks for
them: all rows of 5,000 nodes are 25 million pairs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from itertools import chain, count
from typing import Any, get_type_hints

import msgspec
import numpy as np
from msgspec import Raw, Struct, structs

from leadsman.decision.decide import FilterResult
from leadsman.decision.delay.bounds import BadBound, ResolvedBound, parse_bounds, resolve_bounds
from leadsman.decision.inputs import DecisionInputs, DelayView, EstimateView
from leadsman.decision.model import PodInfo, Refusal
from leadsman.kube import names
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.sources.recording.tables import FIELDS, Table, plain_row, table_changes, tables_of, without
from leadsman.state.snapshot import NodeState

FORMAT = 3

FILTER, PRIORITIZE, PREEMPT = "filter", "prioritize", "preempt"

READ_ANNOTATIONS = {
    names.ACCELERATOR_ANNOTATION,
    names.BANDWIDTH_ANNOTATION,
    names.DELAY_ANNOTATION,
    names.DEVICE_MEMORY_ANNOTATION,
    names.EGRESS_BANDWIDTH_KEY,
    names.ESTIMATE_ANNOTATION,
    names.REPLICAS_ANNOTATION,
}
"""Annotations of a pod that decisions read. PodInfo has a few more, and nothing else of them is recorded."""

KEYS_PER_MESSAGE = 32
"""A message holds at most so many keys of a table, so that encoding it keeps the interpreter for some 0.3 ms, however
large the cluster is."""

MAX_LISTS = 8
"""Lists of candidates that are kept as they were written: kube-scheduler asks with the same names again."""

MAX_NAMES = 200_000
"""After this many names everything begins again: names that requests once brought do not pile up."""

Key = str | tuple[str, str]
"""A row is known by a name, or by namespace and name."""

ESTIMATES = "estimates"
"""Stands among the places of the other delay sources."""


class DecidedRequest(Struct, frozen=True):
    """One of kube-scheduler's requests, the inputs that it was decided on, and the answer.

    nodes: the candidates, each once.
    answer: what filter and preempt answered, or prioritize: node → score.
    fault: why it was answered without a decision (deadline, a plugin's error); "": it was decided.
    victims: of preempt, node → UIDs of the pods that would be evicted there.
    """

    verb: str
    pod: PodInfo
    nodes: Sequence[str]
    inputs: DecisionInputs
    answer: FilterResult | Mapping[str, int]
    fault: str = ""
    victims: Mapping[str, Sequence[str]] = {}


class Head(Struct, frozen=True, array_like=True, tag=0):
    """Opens a block with its format, its time and the names that the block before brought.

    at_seconds, at_unix_seconds: the same moment on the monotonic clock of `now` and on the wall clock.

    names: those that the block before brought; the first of them has the number first_name.
    """

    format: int
    at_seconds: float
    at_unix_seconds: float
    first_name: int
    names: list[str]


class Change(Struct, frozen=True, array_like=True, tag=1):
    """Changes a table: it loses what is gone, then gets what changed. Each table has its own types for that."""

    table: str
    changed: dict[Key, Raw]
    gone: Sequence[Key] = ()


class Request(Struct, frozen=True, array_like=True, tag=2):
    """A decided request, as it is written.

    new_names: names without a number so far; the first of them gets first_name.
    candidates: the nodes asked about. victims: of preempt, node → UIDs.
    fault: why it was answered without a decision; "": it was decided.
    refusals: the distinct ones. refused: the refused nodes in the order of the answer, and the place of each one's
    refusal. scores: of the candidates in their order; None: it is not about scores.
    """

    verb: str
    at_seconds: float
    pod: PodInfo
    first_name: int
    new_names: list[str]
    candidates: bytes
    victims: dict[str, list[str]]
    fault: str
    refusals: list[Refusal]
    refused: bytes
    refusal_of: bytes
    scores: bytes | None


RecordedView = tuple[str, list[str], float | None, float]
"""source, nodes, read_at and fresh_until of a DelayView; of estimates, read_at is made_at."""

NODE_FIELDS = {name: kind for name, kind in get_type_hints(NodeState).items() if name != "reachability"}
"""Fields of a node's state that decisions read."""


def _plain(value: object) -> object:
    """Encodes what msgspec does not know. NotImplementedError is how an enc_hook says that it does not know it
    either."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


class RequestEncoder:
    """Encodes one stream of requests. Call `begin` before the first, and wherever a segment begins.

    Each message is a value of `encode`'s iterator, made when it is asked for; `block` joins those that are made.
    """

    def begin(self) -> None:
        """Forgets what was written, so that the next request brings all of its inputs."""
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._first_new = self._first_restated = 0
        self._lists: dict[int, tuple[Sequence[str], bytes]] = {}
        self._fields: dict[str, Any] = {}
        self._tables: dict[str, Table] = {}
        self._rows: defaultdict[str, set[str]] = defaultdict(set)

    def block(self, messages: Sequence[bytes], now: float, unix_now: float) -> bytes:
        """Makes a block of the messages: a MessagePack array of 32-bit length, which begins with a Head."""
        restated = self._names[self._first_restated : self._first_new]
        head = _ENCODER.encode(Head(FORMAT, now, unix_now, self._first_restated, restated))
        self._first_restated, self._first_new = self._first_new, len(self._names)
        return b"".join((b"\xdd", (len(messages) + 1).to_bytes(4, "big"), head, *messages))

    @property
    def is_full(self) -> bool:
        """Tells whether to begin again, because too many names have been met."""
        return len(self._numbers) > MAX_NAMES

    def encode(self, request: DecidedRequest) -> Iterator[bytes]:
        """Yields the request's messages: the changes of its inputs, then the request itself."""
        inputs = request.inputs
        for field in FIELDS:
            value = getattr(inputs, field)
            if value is not self._fields.get(field):
                self._fields[field], tables = value, tables_of(field, value)
                gone = [name for name in self._tables if name.startswith(f"{field}.") and name not in tables]
                for name, table in (*tables.items(), *((name, {}) for name in gone)):
                    yield from self._changes(name, table)
        if inputs.delay_views or inputs.estimates is not None or "views" in self._tables:
            yield from self._delays(request)
        yield _ENCODER.encode(self._request(request))

    def _changes(self, name: str, table: Table) -> Iterator[bytes]:
        before, self._tables[name] = self._tables.get(name, {}), table
        changed, gone = table_changes(before, table)
        kept = without(before, gone)
        size = 1 if name.startswith("telemetry.") else KEYS_PER_MESSAGE
        for start in range(0, len(changed), size) or range(bool(gone)):
            rows: dict[Key, Any] = {
                key: self._row(name, kept.get(key), table[key]) for key in changed[start : start + size]
            }
            yield _ENCODER.encode(Change(name, rows, () if start else gone))

    def _row(self, table: str, before: Any, value: Any) -> object:
        if isinstance(value, NodeState):
            before = before or NodeState()
            return {name: each for name in NODE_FIELDS if (each := getattr(value, name)) is not getattr(before, name)}
        if table != "views":
            return plain_row(value)
        if hasattr(value, "made_at"):
            return "", [], value.made_at, float("inf")
        return value.source, list(value.nodes), value.read_at, value.fresh_until

    def _delays(self, request: DecidedRequest) -> Iterator[bytes]:
        """Yields the sources of delays, where they changed, and the rows of those nodes that the pod's bounds are
        to."""
        inputs = request.inputs
        views: dict[str, DelayView | EstimateView] = {str(place): view for place, view in enumerate(inputs.delay_views)}
        if inputs.estimates is not None:
            views[ESTIMATES] = inputs.estimates
        before = self._tables.get("views", {})
        for place in chain(*table_changes(before, views)):
            self._rows[place].clear()
        yield from self._changes("views", views)
        if not request.pod.has_delay_bounds:
            return
        for reference in _references(request.pod, request.nodes, inputs):
            for place, view in views.items():
                if reference not in self._rows[place]:
                    self._rows[place].add(reference)
                    row: dict[Key, Any] = {reference: view.row(reference)}
                    yield _ENCODER.encode(Change(f"rows/{place}", row))

    def _request(self, request: DecidedRequest) -> Request:
        first_name = len(self._names)
        new_names, candidates = self._candidates(request.nodes)
        scores, refusals, refused = None, dict[Refusal, int](), list[str]()
        pod = request.pod
        labels = {key: value for key, value in pod.labels.items() if BoundedLabels.is_read(key)}
        annotations = {key: value for key, value in pod.annotations.items() if key in READ_ANNOTATIONS}
        places: Sequence[int] = ()
        if isinstance(request.answer, tuple):
            refused = list(request.answer.refused)
            places = _places(request.answer.refused.values(), refusals)
        else:
            scores = bytes(request.answer.values())
        return Request(
            request.verb,
            request.inputs.now,
            structs.replace(pod, labels=labels, annotations=annotations),
            first_name,
            new_names,
            candidates,
            {node: list(uids) for node, uids in request.victims.items()},
            request.fault,
            list(refusals),
            self._pack(refused),
            np.asarray(places, "<u4").tobytes(),
            scores,
        )

    def _candidates(self, nodes: Sequence[str]) -> tuple[list[str], bytes]:
        """Returns the names among them that have no number yet, and all as numbers."""
        if id(nodes) in self._lists:
            return [], self._lists[id(nodes)][1]
        new_names = [name for name in dict.fromkeys(nodes) if name not in self._numbers]
        self._numbers.update(zip(new_names, count(len(self._names)), strict=False))
        self._names += new_names
        if len(self._lists) >= MAX_LISTS:
            del self._lists[next(iter(self._lists))]
        self._lists[id(nodes)] = nodes, self._pack(nodes)
        return new_names, self._lists[id(nodes)][1]

    def _pack(self, names: Sequence[str]) -> bytes:
        """Returns the numbers of names as differences: names in the order of their numbers are all ones, which
        compress."""
        numbers = np.fromiter(map(self._numbers.__getitem__, names), np.int32, len(names))
        return np.diff(numbers, prepend=np.int32(0)).astype("<i4").tobytes()


def _references(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> list[str]:
    try:
        resolved = resolve_bounds(parse_bounds(pod), pod, nodes, inputs)
    except BadBound:
        return []
    return [node for each in resolved if isinstance(each, ResolvedBound) for node in each.target.nodes]


def _places(refusals: Collection[Refusal], distinct: dict[Refusal, int]) -> Sequence[int]:
    """Returns the place of each among the distinct ones, which are added. Most are few objects, and looked up once."""
    ids = list(map(id, refusals))
    by_id = {
        key: distinct.setdefault(each, len(distinct)) for key, each in dict(zip(ids, refusals, strict=True)).items()
    }
    return list(map(by_id.__getitem__, ids))
