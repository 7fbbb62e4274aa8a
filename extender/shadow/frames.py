"""What passes between the extender and its shadow process. Pure.

To the process, through a pipe: frames, each one letter, its length in four bytes, and its content: P a policy, M a
block of messages as they are recorded. From the process: lines of JSON, each a Tally.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from leadsman.decision.policy import Policy

_HEAD = struct.Struct(">cI")
POLICY, MESSAGES = b"P", b"M"

MAX_CHANGES = 20
"""In one tally; of others only the number is told."""

MAX_TEXT = 400
"""Characters of what changes, and of why."""

LONGEST_LINE_BYTES = 1 << 20


class ShadowChange(Struct, frozen=True):
    """An answer that the shadow policy changes. pod: namespace/name. change, why: as `leadsman replay` says them."""

    pod: str
    verb: str
    result: str
    change: str
    why: str


class Tally(Struct, frozen=True):
    """What was judged since the last one. results: verb → result → how many. policy: its digest."""

    policy: str
    results: Mapping[str, Mapping[str, int]]
    changes: Sequence[ShadowChange] = ()


_TALLY = msgspec.json.Decoder(Tally)


def policy_frame(policy: Policy) -> bytes:
    return _frame(POLICY, msgspec.msgpack.encode(policy))


def messages_frame(block: bytes) -> bytes:
    return _frame(MESSAGES, block)


def _frame(kind: bytes, content: bytes) -> bytes:
    return _HEAD.pack(kind, len(content)) + content


def tally_line(tally: Tally) -> bytes:
    return msgspec.json.encode(tally) + b"\n"


def read_tally(line: bytes) -> Tally:
    return _TALLY.decode(line)


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Kind and content of each frame that is whole now."""
        self._received += data
        while len(self._received) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._received)
            end = _HEAD.size + length
            if len(self._received) < end:
                return
            content = bytes(memoryview(self._received)[_HEAD.size : end])
            del self._received[:end]
            yield kind, content
