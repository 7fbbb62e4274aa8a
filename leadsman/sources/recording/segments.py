"""Writes the files of a recording: blocks are appended to the newest segment, and the oldest goes to make room.

    block   mark, length (4 bytes each, big-endian), content compressed by zlib, which ends it with a checksum

At a block with the mark BEGINS a reader can begin: the full state of the cluster stands there, and the blocks behind it
say what changed since. The state is written again when those are 4 times as large, then when they are 8, 16 and 32
times as large, at most a sixteenth of the recording: that is what a damaged byte may cost, and a small recording has
several states too. Each segment begins with one. A process that is killed leaves at most the last block torn.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

BEGINS, GOES_ON = b"LEAD", b"SMAN"
HEAD = struct.Struct(">4sI")

LARGEST_BLOCK_BYTES = 16 << 20
"""Compressed or not: a reader takes no larger one, whatever a file says. Most are of 64 KiB, before compression."""

DEFAULT_RING_BYTES = 256 << 20
SMALLEST_RING_BYTES = 1 << 20

SEGMENT_SHARE = 1 / 16
"""Of the ring: as much is lost when the oldest segment goes."""

FIRST_TIMES, MOST_TIMES = 4, 32
"""How much larger than a state is what follows it, at first and later: states take 3 % of a long recording."""

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

    Raises RingFolderError, and OSError from `write` and `begin_state`: the disk is full, for example.
    """

    def __init__(self, folder: Path, max_bytes: int = DEFAULT_RING_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._lock = _locked(folder)
        self._sizes = {path: path.stat().st_size for path in segment_paths(folder)}
        self._file, self._path = -1, folder
        self._mark, self._times, self._state_bytes, self._followed_bytes = BEGINS, FIRST_TIMES, 0, 0

    @property
    def total_bytes(self) -> int:
        return sum(list(self._sizes.values()))  # A copy: another thread writes.

    @property
    def is_state_due(self) -> bool:
        """Whether the next request should bring its full state; also before the first one."""
        enough = min(self._times * self._state_bytes, SEGMENT_SHARE * self._max_bytes)
        return self._file < 0 or self._followed_bytes >= enough

    def begin_state(self) -> None:
        """The full state follows, in a new segment when this one is large enough."""
        if self._file < 0 or self._sizes[self._path] >= SEGMENT_SHARE * self._max_bytes:
            self._start_segment()
        self._mark, self._followed_bytes = BEGINS, 0
        if self._state_bytes:
            self._times = min(2 * self._times, MOST_TIMES)

    def end_state(self) -> None:
        self._state_bytes, self._followed_bytes = self._followed_bytes, 0

    def write(self, block: bytes) -> None:
        """Appends the block to the segment. Older segments make room for it."""
        packed = zlib.compress(block, _LEVEL)
        if max(len(block), len(packed)) > LARGEST_BLOCK_BYTES:
            raise OSError(f"a block of {len(block):,} bytes is too large for a recording")
        self._append(HEAD.pack(self._mark, len(packed)) + packed)
        self._mark = GOES_ON

    def close(self) -> None:
        self._close_segment()
        os.close(self._lock)

    def _start_segment(self) -> None:
        self._close_segment()
        numbers = [int(path.stem.rpartition("-")[2]) for path in self._sizes if path.stem.rpartition("-")[2].isdigit()]
        self._path = self._folder / f"segment-{max(numbers, default=0) + 1:08d}.rec"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._sizes[self._path] = 0

    def _close_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, data: bytes) -> None:
        self._make_room(len(data))
        self._followed_bytes += len(data)
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
