"""Reads a recording: the decided requests of all segments in a folder, in order, even while it is being written.

What is damaged costs its block: the reader goes on with the next one that is whole. Behind it some inputs may be older
than those that were decided on, up to the next segment, and the requests there say so.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw, structs

from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import DecisionInputs, EstimatedRow, SourceRow
from leadsman.decision.model import CandidateNodes
from leadsman.decision.policy import Policy
from leadsman.decision.view import Views
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.recording.messages import (
    ESTIMATES,
    FORMAT,
    MAX_LISTS,
    NODE_FIELDS,
    Change,
    DecidedRequest,
    Head,
    Key,
    RecordedView,
    Request,
)
from leadsman.sources.recording.segments import HEAD, LARGEST_BLOCK_BYTES, MARK, segment_paths
from leadsman.sources.recording.tables import field_of, read_row, without
from leadsman.state.snapshot import NodeState, Snapshot

_SEARCHED_BYTES = 1 << 20
"""Read at a time when the next whole block is searched for behind a damaged one."""


class BadRecording(ValueError):
    """The recording cannot be read; the text says what is wrong with it, and what would do."""


class NotRecorded(LookupError):
    """A decision asks for a delay that the recorded one did not turn on."""


class RecordedRequest(NamedTuple):
    """A request from the recording, and when it was decided.

    is_whole: no block before it in its segment is damaged, so its inputs are those that it was decided on.
    """

    request: DecidedRequest
    at_unix_seconds: float
    is_whole: bool = True


class RecordedDelays:
    """A DelayView or EstimateView that has only the rows that recorded decisions turned on."""

    def __init__(self, view: RecordedView) -> None:
        self.source, names, self.read_at, self.fresh_until = view
        self.nodes = dict.fromkeys(names).keys()
        self.made_at = self.read_at or 0.0
        self.rows: dict[str, Any] = {}

    def row(self, reference: str) -> Any:
        """Returns the node's row. Raises NotRecorded."""
        if reference not in self.rows:
            what = f"delays of {self.source}" if self.source else "estimated delays"
            raise NotRecorded(f"the {what} to {reference} are not in the recording")
        return self.rows[reference]


class Recording:
    """Reads the recording in a folder. torn: what could not be read, as sentences; filled while `requests` goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.torn: list[str] = []

    def requests(self, wait: Callable[[], bool] | None = None) -> Iterator[RecordedRequest]:
        """Yields all requests, and with `wait` those that are written meanwhile.

        wait: waits where the recording ends; whether to look for more of it then.
        Raises BadRecording: there is none to read, or it is of a format that cannot be read.
        """
        if wait is None and not segment_paths(self._folder):
            raise BadRecording(
                f"{self._folder}: there is no recording here; name the folder of the extender's --record-dir"
            )
        newest: Path | None = None
        while True:
            newer = [path for path in segment_paths(self._folder) if newest is None or path > newest]
            if newer:
                newest = newer[0]
                yield from self._segment(newest, wait)
            elif wait is None or not wait():
                return

    def _segment(self, path: Path, wait: Callable[[], bool] | None) -> Iterator[RecordedRequest]:
        decoder, damages = RequestDecoder(), len(self.torn)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            self.torn.append(f"{path}: gone meanwhile: the extender made room for newer requests")
            return
        with file:
            for block in self._blocks(path, file, wait):
                try:
                    for read in decoder.decode(block):
                        yield read._replace(is_whole=len(self.torn) == damages and not decoder.left_out)
                except UNREADABLE as error:
                    self.torn.append(f"{path}: a block is left out: {error!r}")
        if decoder.left_out:
            self.torn.append(f"{path}: {decoder.left_out:,} requests and changes are left out: {decoder.why}")

    def _blocks(self, path: Path, file: BinaryIO, wait: Callable[[], bool] | None) -> Iterator[bytes]:
        """Yields the blocks of the segment that are whole."""
        at, is_over = 0, wait is None
        while True:
            if found := _block_at(file, at):
                block, at = found
                yield block
            elif (beginning := _next_block(file, at + 1)) is not None:
                self.torn.append(f"{path}: damaged at byte {at:,}; {beginning - at:,} bytes are left out")
                at = beginning
            elif is_over:
                size = os.fstat(file.fileno()).st_size
                if size > at:
                    self.torn.append(f"{path}: torn at byte {at:,} of {size:,}; all before it is read")
                return
            else:
                # Read once more afterwards: the last block came before the next segment, or before the end.
                is_over = segment_paths(self._folder)[-1:] != [path] or (wait is not None and not wait())


def _block_at(file: BinaryIO, at: int) -> tuple[bytes, int] | None:
    """Returns the block there, unpacked, and where it ends; None: it is damaged, or the file ends before it does."""
    file.seek(at)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length = HEAD.unpack(head)
    if mark != MARK or length > LARGEST_BLOCK_BYTES:
        return None
    unpacker, packed = zlib.decompressobj(), file.read(length)
    try:
        block = unpacker.decompress(packed, LARGEST_BLOCK_BYTES)
    except zlib.error:
        return None
    if not unpacker.eof or unpacker.unused_data or len(packed) < length:
        return None
    return block, at + HEAD.size + length


def _next_block(file: BinaryIO, at: int) -> int | None:
    """Finds where the next whole block begins; None: there is none."""
    file.seek(at)
    while data := file.read(_SEARCHED_BYTES):
        found = data.find(MARK)
        while found >= 0:
            if _block_at(file, at + found):
                return at + found
            found = data.find(MARK, found + 1)
        at += max(1, len(data) - len(MARK) + 1)
        file.seek(at)
    return None


_BLOCK = msgspec.msgpack.Decoder(list[Head | Change | Request])
_NODE = msgspec.msgpack.Decoder(dict[str, Raw])
_NODE_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in NODE_FIELDS.items()}
_VIEW, _SOURCE_ROW = msgspec.msgpack.Decoder(RecordedView), msgspec.msgpack.Decoder(SourceRow)
_ESTIMATED_ROW = msgspec.msgpack.Decoder(EstimatedRow)


class RequestDecoder:
    """Decodes the blocks of one segment.

    left_out: requests and changes that cannot be read, because a block that they build on is not there. why: the first.
    """

    def __init__(self) -> None:
        self.left_out, self.why = 0, ""
        self._names: dict[int, str] = {}
        self._lists: dict[bytes, CandidateNodes] = {}
        self._tables: defaultdict[str, dict[Any, Any]] = defaultdict(dict)
        self._changed = set[str]()
        self._inputs: dict[str, Any] = {"snapshot": Snapshot(), "policy": Policy(), "views": Views()}

    def decode(self, block: bytes) -> Iterator[RecordedRequest]:
        """Yields the requests in a block. Raises BadRecording: of another format; UNREADABLE."""
        head, *messages = _BLOCK.decode(block)
        if not isinstance(head, Head):
            raise BadRecording("a block does not say of which format it is")
        if head.format != FORMAT:
            raise BadRecording(
                f"the recording has format {head.format}, and this leadsman reads format {FORMAT}: replay it with the"
                " version that wrote it"
            )
        self._names.update(enumerate(head.names, head.first_name))
        for message in messages:
            try:
                if isinstance(message, Change):
                    self._apply(message)
                elif isinstance(message, Request):
                    at_unix_seconds = message.at_seconds - head.at_seconds + head.at_unix_seconds
                    yield RecordedRequest(self._request(message), at_unix_seconds)
            except (LookupError, ValueError, TypeError, *UNREADABLE) as error:
                kind = "request" if isinstance(message, Request) else "change"
                self.left_out, self.why = self.left_out + 1, self.why or f"a {kind} does not follow: {error!r}"

    def _apply(self, change: Change) -> None:
        name, before = change.table, self._tables[change.table]
        if name.startswith("rows/"):
            place = name.removeprefix("rows/")
            decoder: msgspec.msgpack.Decoder[Any] = _ESTIMATED_ROW if place == ESTIMATES else _SOURCE_ROW
            rows = {reference: decoder.decode(raw) for reference, raw in change.changed.items()}
            self._tables["views"][place].rows.update(rows)
            return
        kept = without(before, change.gone)
        rows = {key: _read_row(name, kept.get(key), key, raw) for key, raw in change.changed.items()}
        self._tables[name] = {**kept, **rows}
        self._changed.add(name.partition(".")[0])

    def _request(self, message: Request) -> DecidedRequest:
        for field in self._changed - {"views"}:
            self._inputs[field] = field_of(field, self._tables)
        if "views" in self._changed:
            views = dict(self._tables["views"])
            self._inputs["estimates"] = views.pop(ESTIMATES, None)
            self._inputs["delay_views"] = tuple(views.values())
        self._changed.clear()
        self._names.update(enumerate(message.new_names, message.first_name))
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
        """Returns the same object for the same list, as it is while requests are decided: caches are keyed by it."""
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
    if table == "views":
        return RecordedDelays(_VIEW.decode(raw))
    return read_row(table, key, raw, msgspec.msgpack)
