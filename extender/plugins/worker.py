"""Runs one plugin: `python -m extender.plugins.worker GROUP NAME FD MEMORY_BYTES`, started by the extender.

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

MAX_REASONS, MAX_REASON = 32, 200
"""Distinct reasons of one reply, and characters of one."""

MAX_FILES = 64
_MAX_PROBLEM = 300
_PR_SET_PDEATHSIG = 1


class Question(Struct, frozen=True, array_like=True):
    """Brings nodes that changed since the last question, and the pod to place; None: only the nodes, and no reply
    comes.

    is_whole: `changed` are all nodes there are. candidates: names; None: the same as in the last question.
    """

    changed: list[Node]
    is_whole: bool
    pod: Pod | None = None
    candidates: list[str] | None = None


class Reply(Struct, frozen=True, array_like=True):
    """The plugin's answer about one question's candidates, in their order; the first reply says that it is loaded.

    problem: what the plugin raised, or why it cannot be loaded; "": nothing. on_failure: of a filter, in the first one.
    values: float64, a node's score or the place of the reason why it is refused; NaN: unknown, or it passes.
    """

    problem: str = ""
    on_failure: str = ""
    values: bytes = b""
    reasons: list[str] = []


def send(connection: socket.socket, message: Question | Reply) -> None:
    content = msgspec.msgpack.encode(message)
    connection.sendall(LENGTH.pack(len(content)) + content)


class Worker:
    """Keeps the nodes that the extender sends, and asks the plugin about them."""

    def __init__(self, plugin: Any, group: str) -> None:
        self._plugin, self._is_filter = plugin, group == FILTERS_GROUP
        self._nodes: dict[str, Node] = {}
        self._names: list[str] = []

    def take(self, question: Question) -> Reply | None:
        """Returns the reply to a question; None when it asks nothing."""
        if question.is_whole:
            self._nodes.clear()
        self._nodes.update((node.name, node) for node in question.changed)
        if question.candidates is not None:
            self._names = question.candidates
        if question.pod is None:
            return None
        nodes = [self._nodes.get(name) or Node(name) for name in self._names]
        try:
            if self._is_filter:
                return self._refusals(self._plugin.refuse(question.pod, nodes))
            scores = self._plugin.score(question.pod, nodes)
            if any(math.isnan(score) for score in scores.values()):
                raise BadPlugin("a score is NaN; leave a node out whose score is unknown")
            return self._reply(scores, [])
        except Exception as error:  # A stranger's code.
            return Reply(f"{type(error).__name__}: {error}"[:_MAX_PROBLEM])

    def _refusals(self, refused: Mapping[str, str]) -> Reply:
        places: dict[str, int] = {}
        if silent := [node for node, why in refused.items() if not (isinstance(why, str) and why.strip())]:
            raise BadPlugin(f"it refuses {silent[0]!r} without a reason")
        found = {node: places.setdefault(why[:MAX_REASON], len(places)) for node, why in refused.items()}
        if len(places) > MAX_REASONS:
            raise BadPlugin(
                f"{len(places)} different reasons; at most {MAX_REASONS}, without a value of the node in them"
            )
        return self._reply(found, list(places))

    def _reply(self, values: Mapping[str, float], reasons: list[str]) -> Reply:
        strangers = values.keys() - self._names
        if strangers:
            raise BadPlugin(f"it answers for {min(strangers, key=str)!r}, a node that it was not asked about")
        by_candidate = array.array("d", [values.get(name, math.nan) for name in self._names])
        return Reply(values=by_candidate.tobytes(), reasons=reasons)


def limit_process(memory_bytes: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    Path("/proc/self/oom_score_adj").write_text("1000")


def _receive(connection: socket.socket, count: int) -> bytes:
    """Raises EOFError when the extender has closed it."""
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
        send(connection, Reply(f"cannot be loaded: {type(error).__name__}: {error}"[:_MAX_PROBLEM]))
        return
    worker = Worker(plugin, group)
    send(connection, Reply(on_failure=getattr(plugin, "on_failure", "")))
    decoder = msgspec.msgpack.Decoder(Question)
    try:
        while True:
            (length,) = LENGTH.unpack(_receive(connection, LENGTH.size))
            if reply := worker.take(decoder.decode(_receive(connection, length))):
                send(connection, reply)
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(sys.argv[1:])
