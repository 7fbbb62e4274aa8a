"""Turns the blocks of a recording back into decided requests, each with the inputs that it was decided on."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, structs

from leadsman.decision.cache import DecisionCache
from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import DecisionInputs, EstimatedRow, Readings, SourceRow
from leadsman.decision.model import CandidateNodes
from leadsman.decision.policy import Policy
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.runtime.version import VERSION
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.messages import (
    ESTIMATES,
    FORMAT,
    MAX_LISTS,
    NODE_FIELDS,
    Begin,
    Key,
    ReadChange,
    RecordedReadings,
    RecordedView,
    Request,
)
from leadsman.sources.recording.tables import FIELD_TYPES, ROW_TYPES, apply_changes, field_of
from leadsman.state.snapshot import NodeState, Snapshot


class BadRecording(ValueError):
    """The recording cannot be read: what is wrong with it, and what would do."""


class NotRecorded(LookupError):
    """A decision asks for a delay that the recorded one did not turn on."""


class RecordedDelays:
    """A DelayView, or an EstimateView, of which only the rows are there that recorded decisions turned on."""

    def __init__(self, view: RecordedView) -> None:
        self.source, names, self.read_at, self.fresh_until = view
        self.nodes = dict.fromkeys(names).keys()
        self.made_at = self.read_at or 0.0
        self.rows: dict[str, Any] = {}

    def row(self, reference: str) -> Any:
        """NotRecorded."""
        if reference not in self.rows:
            what = f"delays of {self.source}" if self.source else "estimated delays"
            raise NotRecorded(f"the {what} to {reference} are not in the recording")
        return self.rows[reference]


_BLOCK = msgspec.msgpack.Decoder(list[Begin | ReadChange | Request])
_NODE = msgspec.msgpack.Decoder(dict[str, Raw])
_NODE_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in NODE_FIELDS.items()}
_FIELD_DECODERS = {
    table: {key: msgspec.msgpack.Decoder(kind) for key, kind in types.items()} for table, types in FIELD_TYPES.items()
}
_ROW_DECODERS: Mapping[str, msgspec.msgpack.Decoder[Any]] = {
    name: msgspec.msgpack.Decoder(kind)
    for name, kind in {
        **ROW_TYPES,
        "telemetry.columns": RecordedReadings,
        "views": RecordedView,
        "rows": SourceRow,
    }.items()
}
_ESTIMATED_ROW = msgspec.msgpack.Decoder(EstimatedRow)


class RequestDecoder:
    """Decodes one stream of blocks, from one with a Begin on. begin: of what is being read; None before the first."""

    def __init__(self) -> None:
        self.begin: Begin | None = None
        self._cache = DecisionCache()

    def decode(self, block: bytes) -> Iterator[DecidedRequest]:
        """The requests in a block. BadRecording when they do not follow from what came before; UNREADABLE."""
        for message in _BLOCK.decode(block):
            if isinstance(message, Begin):
                self._start(message)
                continue
            if self.begin is None:
                raise BadRecording("it does not begin with the state of the cluster")
            try:
                if isinstance(message, Request):
                    yield self._request(message)
                else:
                    self._apply(message)
            except (LookupError, ValueError, TypeError, *UNREADABLE) as error:
                kind = "request" if isinstance(message, Request) else f"change of {message.table}"
                raise BadRecording(f"a {kind} does not follow from what came before it: {error!r}") from error

    def unix_seconds(self, at_seconds: float) -> float:
        """The wall clock's time of a moment of the requests."""
        assert self.begin
        return at_seconds - self.begin.at_seconds + self.begin.at_unix_seconds

    def _start(self, begin: Begin) -> None:
        if begin.format != FORMAT:
            raise BadRecording(
                f"the recording has format {begin.format}, written by leadsman {begin.leadsman}; leadsman"
                f" {VERSION} reads format {FORMAT}: replay it with that version"
            )
        self.begin = begin
        self._names: list[str] = []
        self._lists: dict[bytes, CandidateNodes] = {}
        self._tables: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        self._changed = set[str]()
        self._inputs: dict[str, Any] = {"snapshot": Snapshot(), "policy": Policy(), "cache": self._cache}

    def _apply(self, change: ReadChange) -> None:
        name, before = change.table, self._tables[change.table]
        if name.startswith("rows/"):
            place = name.removeprefix("rows/")
            decoder = _ESTIMATED_ROW if place == ESTIMATES else _ROW_DECODERS["rows"]
            rows = {reference: decoder.decode(raw) for reference, raw in change.changed.items()}
            self._tables["views"][place].rows.update(rows)
            return
        rows = {key: _read_row(name, before.get(key), key, raw) for key, raw in change.changed.items()}
        self._tables[name] = apply_changes(before, rows, change.gone, change.order)
        self._changed.add(name.partition(".")[0])

    def _request(self, message: Request) -> DecidedRequest:
        for field in self._changed - {"views"}:
            self._inputs[field] = field_of(field, self._tables)
        if "views" in self._changed:
            views = dict(self._tables["views"])
            self._inputs["estimates"] = views.pop(ESTIMATES, None)
            self._inputs["delay_views"] = tuple(views.values())
        self._changed.clear()
        self._names += message.new_names
        nodes = self._candidates(message.candidates)
        answer: FilterResult | Mapping[str, int]
        if message.scores is None:
            answer = self._filter_result(nodes, message)
        else:
            answer = dict(zip(nodes, message.scores, strict=True))
        inputs = DecisionInputs(**self._inputs, now=message.at_seconds)
        return DecidedRequest(message.verb, message.pod, nodes, inputs, answer, message.fault, message.victims)

    def _filter_result(self, nodes: CandidateNodes, message: Request) -> FilterResult:
        places = np.frombuffer(message.refusal_of, "<u4").tolist()
        names = self._unpack(message.refused)
        refused = {node: message.refusals[place] for node, place in zip(names, places, strict=True)}
        kept = nodes if not refused else CandidateNodes(node for node in nodes if node not in refused)
        return FilterResult(kept, refused)

    def _candidates(self, packed: bytes) -> CandidateNodes:
        """The same object for the same list, as it is while requests are decided: caches are keyed by it."""
        if packed not in self._lists:
            if len(self._lists) >= MAX_LISTS:
                self._lists.clear()
            self._lists[packed] = CandidateNodes(self._unpack(packed))
        return self._lists[packed]

    def _unpack(self, packed: bytes) -> list[str]:
        return [self._names[number] for number in np.cumsum(np.frombuffer(packed, "<i4")).tolist()]


def _read_row(table: str, before: Any, key: Key, raw: Raw) -> Any:
    if table == "snapshot.nodes":
        fields = {name: _NODE_DECODERS[name].decode(each) for name, each in _NODE.decode(raw).items()}
        return structs.replace(before or NodeState(), **fields)
    if table in _FIELD_DECODERS:
        return _FIELD_DECODERS[table][str(key)].decode(raw)
    name = table.partition("/")[0]
    value = _ROW_DECODERS[name].decode(raw)
    if name == "telemetry.columns":
        values, read_at, oldest_read_at = value
        return Readings({node: int(text) for node, text in values.items()}, read_at, oldest_read_at)
    return RecordedDelays(value) if name == "views" else value
