"""What passes between the extender and a plugin's process: messages in MessagePack, each after its length. Pure."""

import struct

import msgspec
from msgspec import Struct

from leadsman.plugin import Node, Pod

LENGTH = struct.Struct(">I")

MAX_ANSWER_BYTES = 1 << 20
"""20,000 values of 8 bytes, and as many reasons as are allowed."""

MAX_REASONS, MAX_REASON = 32, 200
"""Distinct reasons of one answer, and characters of one."""

PASSES = -1


class Message(Struct, frozen=True, array_like=True, tag=True):
    """The base of all messages."""


class NodesChanged(Message, frozen=True, tag=1):
    """Nodes that are new or changed, and names of those that are gone."""

    changed: list[Node]
    gone: list[str]


class Ask(Message, frozen=True, tag=2):
    """nodes: names of the candidates; None: the same as in the last question."""

    number: int
    pod: Pod
    nodes: list[str] | None


class Ready(Message, frozen=True, tag=3):
    """The plugin is loaded. on_failure: of a filter."""

    on_failure: str = ""


class Answer(Message, frozen=True, tag=4):
    """Of one question, in the order of its candidates.

    values: of a score, float64, NaN: unknown. refused: of a filter, int16, the place of the reason, or PASSES.
    """

    number: int
    values: bytes = b""
    refused: bytes = b""
    reasons: list[str] = []


class Failed(Message, frozen=True, tag=5):
    """What the plugin raised, or why it cannot be loaded."""

    number: int
    problem: str


Question = NodesChanged | Ask
Reply = Ready | Answer | Failed

_TO_WORKER: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_FROM_WORKER: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def frame(message: Message) -> bytes:
    content = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(content)) + content


def read_question(content: bytes) -> Question:
    return _TO_WORKER.decode(content)


def read_answer(content: bytes) -> Reply:
    """msgspec.DecodeError: it is garbage."""
    return _FROM_WORKER.decode(content)
