"""A ring of files: blocks are appended to the newest segment, and the oldest goes when there are too many bytes.

A segment is a magic number, then blocks: length and CRC-32 of what follows, four bytes each, big-endian, then the block
compressed by zlib. Nothing is ever written twice, so a process that is killed leaves at most the last block torn, and
everything before it readable. Each segment can be read alone.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

MAGIC = b"LEADSMAN\x01\r\n\x1a"
_HEAD = struct.Struct(">II")

DEFAULT_RING_BYTES = 256 << 20
SMALLEST_RING_BYTES = 1 << 20

SEGMENT_SHARE = 1 / 16
"""Of the ring, that follows the full state which each segment begins with: as much is lost when the oldest goes."""

LARGEST_BLOCK_BYTES = 64 << 20
"""Uncompressed. A reader takes no larger one, whatever a file says."""

_LEVEL = 1
"""zlib's fastest: four fifths of what level 6 saves, in a third of its time."""


class RingTooSmall(OSError):
    """The state that each segment begins with leaves no room for requests."""


class RingFolderError(ValueError):
    """The folder cannot be recorded to: what is wrong, and what would do."""


def segment_paths(folder: Path) -> Sequence[Path]:
    """The oldest first."""
    return sorted(folder.glob("segment-*.rec"))


class SegmentRing:
    """Writes the ring in `folder`, as one process at a time does. An earlier one's segments stay, as the oldest.

    total_bytes: of all segments.

    Raises RingFolderError, and OSError from `write` and `start_segment`: the disk is full, for example.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_RING_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = _locked(folder)
        self._sizes = {path: path.stat().st_size for path in segment_paths(folder)}
        self._file = -1
        self._path = folder
        self._base_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        return sum(self._sizes.values())

    @property
    def is_segment_full(self) -> bool:
        """Whether the next request should begin a segment; also before the first one."""
        if self._file < 0:
            return True
        return self._base_bytes is not None and self._size - self._base_bytes >= SEGMENT_SHARE * self._max_bytes

    def start_segment(self) -> None:
        self.close_segment()
        numbers = [int(path.stem.rpartition("-")[2]) for path in self._sizes if path.stem.rpartition("-")[2].isdigit()]
        self._path = self._folder / f"segment-{max(numbers, default=0) + 1:08d}.rec"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._sizes[self._path] = 0
        self._base_bytes = None
        self._append(MAGIC)

    def end_base(self) -> None:
        """The full state stands in the segment; what follows counts towards its size."""
        if self._base_bytes is None:
            self._base_bytes = self._size

    def write(self, block: bytes) -> None:
        """Appends the block to the segment, which is started. Older segments make room for it."""
        packed = zlib.compress(block, _LEVEL)
        self._append(_HEAD.pack(len(packed), zlib.crc32(packed)) + packed)

    def close(self) -> None:
        self.close_segment()
        os.close(self._lock)

    def close_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def _size(self) -> int:
        return self._sizes[self._path]

    def _append(self, data: bytes) -> None:
        self._make_room(len(data))
        view = memoryview(data)
        while view:  # A signal may cut a write short.
            written = os.write(self._file, view)
            self._sizes[self._path] += written
            view = view[written:]

    def _make_room(self, more_bytes: int) -> None:
        while self.total_bytes + more_bytes > self._max_bytes:
            oldest = min(self._sizes)
            if oldest == self._path:
                raise RingTooSmall(
                    f"the state of the cluster alone takes {self._size + more_bytes:,} of the recording's"
                    f" {self._max_bytes:,} bytes; raise --record-bytes"
                )
            oldest.unlink(missing_ok=True)
            del self._sizes[oldest]


def read_segment(path: Path) -> Iterator[bytes]:
    """The blocks of a segment. TornSegment after the last one that is whole, when bytes follow it that are none."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise TornSegment(f"{path}: it does not begin as a recording does")
        while head := file.read(_HEAD.size):
            at = file.tell() - len(head)
            length, crc = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
            packed = file.read(length)
            if len(head) < _HEAD.size or len(packed) < length or zlib.crc32(packed) != crc:
                raise TornSegment(f"{path}: torn at byte {at:,} of {path.stat().st_size:,}; all before it is read")
            yield _unpacked(packed, path, at)


class TornSegment(Exception):
    """A segment ends in the middle of a block, as one does whose writer was killed, or is damaged from there on."""


def _unpacked(packed: bytes, path: Path, at: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        block = unpacker.decompress(packed, LARGEST_BLOCK_BYTES)
    except zlib.error as error:
        raise TornSegment(f"{path}: the block at byte {at:,} cannot be unpacked: {error}") from error
    if not unpacker.eof:
        raise TornSegment(f"{path}: the block at byte {at:,} unpacks to more than {LARGEST_BLOCK_BYTES:,} bytes")
    return block


def _locked(folder: Path) -> int:
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RingFolderError(
            f"{folder}: {error.strerror}; a recording needs a folder that exists and can be written to"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise RingFolderError(f"{folder}: another process records there; give each a folder of its own") from error
    return lock
