"""One conversation with a plugin's process, each step under a deadline. Blocks the thread that calls, never longer."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from extender.plugins.frames import LENGTH, MAX_ANSWER_BYTES, Answer, Failed, Message, Ready, frame, read_answer


class PluginFailed(Exception):
    """The plugin gave no answer that can be used: why."""


class WorkerCommand(Struct, frozen=True):
    """What a process is started with."""

    group: str
    name: str
    memory_bytes: int

    def arguments(self, descriptor: int) -> list[str]:
        module = "extender.plugins.worker"
        return [sys.executable, "-P", "-m", module, self.group, self.name, str(descriptor), str(self.memory_bytes)]


def clean_environment() -> dict[str, str]:
    """Nothing of ours but where Python finds its packages: no credentials, no flags."""
    path = os.pathsep.join(each for each in sys.path if each)
    return {"PATH": os.defpath, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "LANG": "C.UTF-8"}


class Channel:
    """A process and the socket to it. Start it on the main thread: it ends with the thread that started it."""

    def __init__(self, command: WorkerCommand, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        ours, theirs = socket.socketpair()
        self._socket = ours
        ours.setblocking(False)
        with theirs:
            self._process = subprocess.Popen(
                command.arguments(theirs.fileno()),
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, message: Message, until: float) -> None:
        """PluginFailed when it is not taken by monotonic `until`."""
        view = memoryview(frame(message))
        while view:
            self._wait(select.POLLOUT, until)
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PluginFailed(self._ended()) from error

    def receive(self, until: float) -> Ready | Answer | Failed:
        """The next message. PluginFailed when it is late, too long or garbage, or the process has ended."""
        (length,) = LENGTH.unpack(self._receive(LENGTH.size, until))
        if length > MAX_ANSWER_BYTES:
            raise PluginFailed(f"an answer of {length:,} bytes; at most {MAX_ANSWER_BYTES:,}")
        try:
            return read_answer(self._receive(length, until))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PluginFailed(f"an answer that cannot be read: {error}") from error

    def kill(self) -> None:
        """Ends the process at once, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _receive(self, count: int, until: float) -> bytes:
        received = bytearray()
        while len(received) < count:
            self._wait(select.POLLIN, until)
            try:
                data = self._socket.recv(count - len(received))
            except BlockingIOError:
                continue
            except OSError as error:
                raise PluginFailed(self._ended()) from error
            if not data:
                raise PluginFailed(self._ended())
            received += data
        return bytes(received)

    def _wait(self, event: int, until: float) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        left = until - self._clock()
        if left <= 0 or not poll.poll(left * 1000):
            raise PluginFailed("no answer within its deadline")

    def _ended(self) -> str:
        try:
            return f"the process ended with code {self._process.wait(0.05)}"
        except subprocess.TimeoutExpired:
            return "the process closed its end"
