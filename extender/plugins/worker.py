"""The process of one plugin: `python -m extender.plugins.worker GROUP NAME FD MEMORY_BYTES`, started by the extender.

Before any of the plugin's code runs, it gives up what could hurt: memory beyond its limit, the place of the extender
when the kernel looks for a process to kill, cores, more than a few files. It ends with the extender.

Two messages pass, in MessagePack, each after its length: a Question, and a Reply to each that has a pod.
"""

import array
import ctypes
import math
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from leadsman.plugin import FILTERS_GROUP, Node, Pod
from leadsman.plugin_loading import BadPlugin, load_plugin

LENGTH = struct.Struct(">I")

MAX_REPLY_BYTES = 1 << 20
"""20,000 values of 8 bytes, and as many reasons as are allowed."""

MAX_REASONS, MAX_REASON = 32, 200
"""Distinct reasons of one reply, and characters of one."""

PASSES = -1
MAX_FILES = 64
_MAX_PROBLEM = 300
_PR_SET_PDEATHSIG = 1


class Question(Struct, frozen=True, array_like=True):
    """Nodes that changed since the last question, and the pod to place.

    number: grows; 0 asks nothing and gets no reply. gone: nodes that are there no more.
    candidates: names; None: the same as in the last question.
    """

    number: int
    changed: list[Node]
    gone: list[str]
    pod: Pod | None = None
    candidates: list[str] | None = None


class Reply(Struct, frozen=True, array_like=True):
    """What the plugin says of one question's candidates, in their order; the first one says that it is loaded.

    number: the question's; 0 of the first. problem: what the plugin raised, or why it cannot be loaded; "": nothing.
    values: of a score, float64, NaN: unknown. refused: of a filter, int16, the place of the reason, or PASSES.
    on_failure: of a filter, in the first reply.
    """

    number: int
    problem: str = ""
    on_failure: str = ""
    values: bytes = b""
    refused: bytes = b""
    reasons: list[str] = []


def frame(message: Question | Reply) -> bytes:
    content = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(content)) + content


class Worker:
    """Keeps the nodes, and asks the plugin."""

    def __init__(self, plugin: Any, group: str) -> None:
        self._plugin, self._is_filter = plugin, group == FILTERS_GROUP
        self._nodes: dict[str, Node] = {}
        self._names: list[str] = []

    def take(self, question: Question) -> Reply | None:
        """The reply to a question; None where it asks nothing."""
        for name in question.gone:
            self._nodes.pop(name, None)
        self._nodes.update((node.name, node) for node in question.changed)
        if question.pod is None:
            return None
        if question.candidates is not None:
            self._names = question.candidates
        nodes = [self._nodes.get(name) or Node(name) for name in self._names]
        try:
            if self._is_filter:
                return self._refusals(question.number, self._plugin.refuse(question.pod, nodes))
            return self._scores(question.number, self._plugin.score(question.pod, nodes))
        except Exception as error:  # A stranger's code.
            return Reply(question.number, f"{type(error).__name__}: {error}"[:_MAX_PROBLEM])

    def _scores(self, number: int, values: Mapping[str, float]) -> Reply:
        self._only_candidates(values)
        if any(math.isnan(value) for value in values.values()):
            raise BadPlugin("a score is NaN; leave a node out whose score is unknown")
        return Reply(number, values=array.array("d", [values.get(name, math.nan) for name in self._names]).tobytes())

    def _refusals(self, number: int, refused: Mapping[str, str]) -> Reply:
        self._only_candidates(refused)
        reasons: dict[str, int] = {}
        places = array.array("h", [PASSES]) * len(self._names)
        for at, name in enumerate(self._names):
            if name in refused:
                places[at] = reasons.setdefault(str(refused[name])[:MAX_REASON], len(reasons))
        if len(reasons) > MAX_REASONS:
            raise BadPlugin(
                f"{len(reasons)} different reasons; at most {MAX_REASONS}, without a value of the node in them"
            )
        return Reply(number, refused=places.tobytes(), reasons=list(reasons))

    def _only_candidates(self, answered: Mapping[str, object]) -> None:
        strangers = answered.keys() - self._names
        if strangers:
            raise BadPlugin(f"it answers for {min(strangers, key=str)!r}, a node that it was not asked about")


def limit_process(memory_bytes: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    Path("/proc/self/oom_score_adj").write_text("1000")


def _receive(connection: socket.socket, count: int) -> bytes:
    """EOFError when the extender has closed it."""
    received = bytearray()
    while len(received) < count:
        data = connection.recv(min(count - len(received), 1 << 20))
        if not data:
            raise EOFError
        received += data
    return bytes(received)


def main(arguments: Sequence[str]) -> None:
    group, name, descriptor, memory_bytes = arguments
    limit_process(int(memory_bytes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the extender, which then closes our end.
    connection = socket.socket(fileno=int(descriptor))
    os.set_inheritable(connection.fileno(), False)
    try:
        plugin = load_plugin(group, name)
    except Exception as error:  # A stranger's code.
        connection.sendall(frame(Reply(0, f"cannot be loaded: {type(error).__name__}: {error}"[:_MAX_PROBLEM])))
        return
    worker = Worker(plugin, group)
    connection.sendall(frame(Reply(0, on_failure=getattr(plugin, "on_failure", ""))))
    decoder = msgspec.msgpack.Decoder(Question)
    try:
        while True:
            (length,) = LENGTH.unpack(_receive(connection, LENGTH.size))
            reply = worker.take(decoder.decode(_receive(connection, length)))
            if reply is not None:
                connection.sendall(frame(reply))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(sys.argv[1:])
