"""Writes the files of a recording: blocks are appended to the newest segment, and the oldest goes to make room.

    block   mark, length (4 bytes each, big-endian), content compressed by zlib, which ends it with a checksum

Each segment begins with the full state of the cluster, and the blocks behind it say what changed since: once those are
a sixteenth of the recording, the next segment begins. A process that is killed leaves at most the last block torn.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

MARK = b"LEAD"
HEAD = struct.Struct(">4sI")

LARGEST_BLOCK_BYTES = 16 << 20
"""Compressed or not: a reader takes no larger one, whatever a file says. Most are of 64 KiB, before compression."""

DEFAULT_RING_BYTES = 256 << 20
SMALLEST_RING_BYTES = 1 << 20

SEGMENT_SHARE = 1 / 16
"""A segment takes this share of the ring: as much is lost when the oldest one goes."""

_LEVEL = 1
"""zlib's fastest level: four fifths of what level 6 saves, in a third of its time."""


class RingTooSmall(OSError):
    """The state that each segment begins with leaves no room for requests."""


class RingFolderError(ValueError):
    """The folder cannot be recorded to; the text says what is wrong, and what would do."""


def segment_paths(folder: Path) -> Sequence[Path]:
    """Returns the segments' files, the oldest first."""
    return sorted(folder.glob("segment-*.rec"))


class SegmentRing:
    """Writes the ring in `folder`, which one process at a time does. Segments of an earlier one stay, as the oldest.

    total_bytes: of all segments.
    is_full: whether the next request should begin a segment with its full state; also before the first one.

    Raises RingFolderError, and OSError from `write` and `begin_segment`: the disk is full, for example.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_RING_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = _locked(folder)
        self._sizes = {path: path.stat().st_size for path in segment_paths(folder)}
        self._file, self._path, self._state_bytes = -1, folder, 0

    @property
    def total_bytes(self) -> int:
        return sum(list(self._sizes.values()))  # A copy: another thread writes.

    @property
    def is_full(self) -> bool:
        return self._file < 0 or self._sizes[self._path] - self._state_bytes >= SEGMENT_SHARE * self._max_bytes

    def begin_segment(self) -> None:
        """Opens the next segment, which the full state must follow."""
        self._close_segment()
        numbers = [int(path.stem.rpartition("-")[2]) for path in self._sizes if path.stem.rpartition("-")[2].isdigit()]
        self._path = self._folder / f"segment-{max(numbers, default=0) + 1:08d}.rec"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._sizes[self._path] = self._state_bytes = 0

    def end_state(self) -> None:
        """Counts what is in the segment so far as its full state."""
        self._state_bytes = self._sizes[self._path]

    def write(self, block: bytes) -> None:
        """Appends the block to the segment; the oldest segments make room for it."""
        packed = zlib.compress(block, _LEVEL)
        if max(len(block), len(packed)) > LARGEST_BLOCK_BYTES:
            raise OSError(f"a block of {len(block):,} bytes is too large for a recording")
        self._make_room(HEAD.size + len(packed))
        view = memoryview(HEAD.pack(MARK, len(packed)) + packed)
        while view:  # A signal may cut a write short.
            written = os.write(self._file, view)
            self._sizes[self._path] += written
            view = view[written:]

    def close(self) -> None:
        self._close_segment()
        os.close(self._lock)

    def _close_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _make_room(self, more_bytes: int) -> None:
        while self.total_bytes + more_bytes > self._max_bytes:
            oldest = min(self._sizes)
            if oldest == self._path:
                raise RingTooSmall(
                    f"the state of the cluster alone takes {self._sizes[oldest] + more_bytes:,} of the recording's"
                    f" {self._max_bytes:,} bytes; raise --record-bytes"
                )
            oldest.unlink(missing_ok=True)
            del self._sizes[oldest]


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
