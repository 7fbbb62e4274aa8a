"""Reads a recording: the requests of all segments in a folder, in their order, also while it is being written."""

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.decoder import BadRecording, RequestDecoder
from leadsman.sources.recording.segments import BEGINS, GOES_ON, HEAD, LARGEST_BLOCK_BYTES, segment_paths

_SEARCHED_BYTES = 1 << 20
"""Read at a time when the next beginning is searched for behind a damaged block."""


class RecordedRequest(NamedTuple):
    """at_unix_seconds: when it was decided. leadsman: the version that decided it."""

    request: DecidedRequest
    at_unix_seconds: float
    leadsman: str


class DamagedBlock(ValueError):
    """What stands there is no block."""


class Recording:
    """The recording in a folder. torn: what could not be read, as sentences; filled while `requests` goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.torn: list[str] = []

    def requests(self, wait: Callable[[], bool] | None = None) -> Iterator[RecordedRequest]:
        """All requests, and with `wait` those that are written meanwhile.

        wait: waits where the recording ends; whether to look for more of it then.
        BadRecording: there is none to read, or it is whole and of a format that cannot be read.
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
        decoder = RequestDecoder()
        try:
            file = path.open("rb")
        except FileNotFoundError:
            self.torn.append(f"{path}: gone meanwhile: the extender made room for newer requests")
            return
        with file:
            for block in self._blocks(path, file, wait):
                try:
                    for request in decoder.decode(block):
                        assert decoder.begin
                        yield RecordedRequest(request, decoder.unix_seconds(request.inputs.now), decoder.begin.leadsman)
                except BadRecording as error:
                    raise BadRecording(f"{path}: {error}") from error
                except UNREADABLE as error:
                    raise BadRecording(f"{path}: {error}; it may be another version's recording") from error

    def _blocks(self, path: Path, file: BinaryIO, wait: Callable[[], bool] | None) -> Iterator[bytes]:
        """The blocks of a segment, without what is damaged; behind that, from the next full state on."""
        at, is_over = 0, wait is None
        while True:
            try:
                found = _block_at(file, at)
            except DamagedBlock:
                found = None
            if found:
                block, at = found
                yield block
            elif (beginning := _next_beginning(file, at + 1)) is not None:
                left_out = f"{beginning - at:,} bytes are left out, up to the next full state"
                self.torn.append(f"{path}: damaged at byte {at:,}; {left_out}")
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
    """The block there, unpacked, and where it ends; None: the file ends before it does. DamagedBlock."""
    file.seek(at)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    mark, length = HEAD.unpack(head)
    if mark not in (BEGINS, GOES_ON) or length > LARGEST_BLOCK_BYTES:
        raise DamagedBlock
    packed = file.read(length)
    if len(packed) < length:
        return None
    unpacker = zlib.decompressobj()
    try:
        block = unpacker.decompress(packed, LARGEST_BLOCK_BYTES)
    except zlib.error as error:
        raise DamagedBlock from error
    if not unpacker.eof or unpacker.unused_data:
        raise DamagedBlock
    return block, at + HEAD.size + length


def _next_beginning(file: BinaryIO, at: int) -> int | None:
    """Where the next whole block stands that a reader can begin at."""
    file.seek(at)
    while data := file.read(_SEARCHED_BYTES):
        found = data.find(BEGINS)
        while found >= 0:
            if _is_block(file, at + found):
                return at + found
            found = data.find(BEGINS, found + 1)
        at += max(1, len(data) - len(BEGINS) + 1)
        file.seek(at)
    return None


def _is_block(file: BinaryIO, at: int) -> bool:
    try:
        return _block_at(file, at) is not None
    except DamagedBlock:
        return False
