"""The process of one plugin: `python -m extender.plugins.worker GROUP NAME FD MEMORY_BYTES`, started by the extender.

Before any of the plugin's code runs, it gives up what could hurt: memory beyond its limit, the place of the extender
when the kernel looks for a process to kill, cores, more than a few files. It ends with the extender.
"""

import array
import ctypes
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extender.plugins.frames import (
    LENGTH,
    MAX_REASON,
    MAX_REASONS,
    PASSES,
    Answer,
    Ask,
    Failed,
    Message,
    Ready,
    frame,
    read_question,
)
from leadsman.plugin import FILTERS_GROUP, Node
from leadsman.plugin_loading import BadPlugin, load_plugin

MAX_FILES = 64
_MAX_PROBLEM = 300
_PR_SET_PDEATHSIG = 1


def limit_process(memory_bytes: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    Path("/proc/self/oom_score_adj").write_text("1000")


class Worker:
    """Keeps the nodes, and asks the plugin."""

    def __init__(self, plugin: Any, group: str) -> None:
        self._plugin, self._is_filter = plugin, group == FILTERS_GROUP
        self._nodes: dict[str, Node] = {}
        self._names: list[str] = []

    def take(self, content: bytes) -> Message | None:
        """The answer to a message; None: it needs none."""
        message = read_question(content)
        if not isinstance(message, Ask):
            for name in message.gone:
                self._nodes.pop(name, None)
            self._nodes.update((node.name, node) for node in message.changed)
            return None
        if message.nodes is not None:
            self._names = message.nodes
        try:
            return self._answer(message, [self._nodes.get(name) or Node(name) for name in self._names])
        except Exception as error:  # A stranger's code.
            return Failed(message.number, f"{type(error).__name__}: {error}"[:_MAX_PROBLEM])

    def _answer(self, ask: Ask, nodes: Sequence[Node]) -> Answer:
        if self._is_filter:
            return _refusals(ask.number, self._plugin.refuse(ask.pod, nodes), self._names)
        values: Mapping[str, float] = self._plugin.score(ask.pod, nodes)
        numbers = array.array("d", [values.get(name, math.nan) for name in self._names])
        if any(math.isnan(value) for value in values.values()):
            raise BadPlugin("a score is NaN; leave a node out whose score is unknown")
        return Answer(ask.number, numbers.tobytes())


def _refusals(number: int, refused: Mapping[str, str], names: Sequence[str]) -> Answer:
    reasons: dict[str, int] = {}
    places = array.array("h", [PASSES]) * len(names)
    for at, name in enumerate(names):
        if name in refused:
            places[at] = reasons.setdefault(str(refused[name])[:MAX_REASON], len(reasons))
    if len(reasons) > MAX_REASONS:
        raise BadPlugin(f"{len(reasons)} different reasons; at most {MAX_REASONS}, without a value of the node in them")
    return Answer(number, refused=places.tobytes(), reasons=list(reasons))


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
        connection.sendall(frame(Failed(0, f"cannot be loaded: {type(error).__name__}: {error}"[:_MAX_PROBLEM])))
        return
    worker = Worker(plugin, group)
    connection.sendall(frame(Ready(getattr(plugin, "on_failure", ""))))
    try:
        while True:
            (length,) = LENGTH.unpack(_receive(connection, LENGTH.size))
            answer = worker.take(_receive(connection, length))
            if answer is not None:
                connection.sendall(frame(answer))
    except (EOFError, ConnectionError):
        return


if __name__ == "__main__":
    main(sys.argv[1:])
