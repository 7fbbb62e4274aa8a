"""Runs one plugin as a process, with a thread of ours that starts it, asks it and reads its answers.

Whoever asks gets a Future and waits only as long as its decision has time, so that a slow plugin takes no time from the
others. The thread waits for the plugin's own deadline, and only what had all of it is blamed: the process is then
killed, since one that is late may be anywhere in its code, and after three failures in a row it is left alone for a
minute.
"""

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import msgspec
import numpy as np

from extender.plugins.worker import LENGTH, Question, Reply, send
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import FilterPluginPolicy, OnFailure, PluginPolicy
from leadsman.decision.view import BoolArray, FloatArray, NodeIndex
from leadsman.plugin import FILTERS_GROUP, REFUSE, Node, Pod
from leadsman.state.snapshot import NodeState

START_SECONDS = 30.0
"""A plugin has this long for its imports and the first table of nodes."""

ALL_PLUGINS_SECONDS = 0.1
"""All plugins together have this part of one decision's 200 ms, from the request on; the rest is for our own."""

MAX_REPLY_BYTES = 1 << 20
"""A reply may be so large: 20,000 values of 8 bytes, and as many reasons as are allowed."""

FAILURES_UNTIL_OFF = 3
OFF_SECONDS = 60.0


class Unanswered(Exception):
    """Says why the plugin gave no usable answer to a question."""


Answer = tuple[FloatArray, Sequence[str]]
"""Holds each candidate's score, or the place of the reason why it is refused, NaN where there is none; and the
reasons."""

_REPLY = msgspec.msgpack.Decoder(Reply)


class Plugin:
    """One plugin with its process and its thread.

    on_failure: what a filter says becomes of nodes when it fails; "" before it is loaded.
    calls, failures: since the extender started. failures_in_a_row: since it last answered. problem: of the last of
        these; "" while there is none. is_active: it is loaded and can be asked.
    """

    def __init__(self, group: str, settings: PluginPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self.group, self.settings, self.name, self._clock = group, settings, settings.name, clock
        self.deadline_seconds = settings.deadline_ms / 1000
        self.on_failure = self.problem = ""
        self.is_active = self._is_stopped = False
        self.calls = self.failures = self.failures_in_a_row = 0
        self._off_until = 0.0
        self._thread = ThreadPoolExecutor(1, f"leadsman-plugin-{self.name}")
        self._starting: Future[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: (
            tuple[Mapping[str, NodeState], Mapping[str, Mapping[str, str]] | None, NodeIndex, BoolArray] | None
        ) = None
        self._candidates: Sequence[str] | None = None

    @property
    def is_off(self) -> bool:
        """Tells whether the plugin is left alone, as for a minute after three failures in a row."""
        return self._clock() < self._off_until

    @property
    def fails_closed(self) -> bool:
        """Tells whether every node is refused while it does not answer."""
        if not isinstance(self.settings, FilterPluginPolicy):
            return False
        chosen = self.settings.on_failure
        return (self.on_failure if chosen is OnFailure.PLUGIN else chosen) == REFUSE

    @property
    def state(self) -> str:
        return "active" if self.is_active else "off" if self.is_off else "starting"

    @property
    def wants_start(self) -> bool:
        is_starting = self._starting is not None and not self._starting.done()
        return not (self.is_active or is_starting or self.is_off)

    def start(self, inputs: DecisionInputs) -> "Future[None]":
        """Starts the process, loads the plugin and sends it the nodes, START_SECONDS at most."""
        if self._starting:
            self._starting.result()  # It has ended; what it raised is a fault of ours.
        self._starting = self._thread.submit(self._start, inputs)
        return self._starting

    def ask(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> "Future[Answer]":
        """Puts the question behind those that others asked. `wait_for` its answer; `cancel` it when none is wanted."""
        with contextlib.suppress(RuntimeError):  # Of a plugin that was stopped meanwhile.
            if self.is_active:
                return self._thread.submit(self._answer, pod, nodes, inputs)
        unanswered = Future[Answer]()
        unanswered.set_exception(Unanswered(f"it is off: {self.problem}" if self.problem else "it is starting"))
        return unanswered

    def wait_for(self, question: "Future[Answer]", end: float) -> Answer:
        """Returns the answer if it is here by monotonic `end`, or already when this is called. Raises Unanswered."""
        try:
            return question.result(max(end - self._clock(), 0.0))
        except (TimeoutError, CancelledError):
            left = "to ask it" if question.cancel() else "for its answer"
            raise Unanswered(f"no time was left {left}") from None

    def stop(self) -> None:
        """Ends the process, what it forked, and the thread."""
        self.is_active, self._is_stopped = False, True
        self._kill()
        self._thread.shutdown(cancel_futures=True)
        self._end()

    # On the plugin's thread. The kernel ends the process with the thread that started it.

    def _start(self, inputs: DecisionInputs) -> None:
        try:
            self._open()
            self.on_failure = self._receive(START_SECONDS, f"it was not loaded within {START_SECONDS:g} s").on_failure
            self._send(Question(*self._changes(inputs)), START_SECONDS)
        except (Unanswered, OSError) as error:
            self._fail(str(error))
        else:
            self.is_active = True

    def _open(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._replies = self._socket.makefile("rb")
        self._sent, self._candidates = None, None
        path = os.pathsep.join(each for each in sys.path if each)
        descriptor, memory_bytes = theirs.fileno(), self.settings.memory_mib << 20
        module = ["-P", "-m", "extender.plugins.worker", self.group, self.name, str(descriptor), str(memory_bytes)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, *module],
                # Nothing of ours but where Python finds its packages: no credentials, no flags.
                env={"PATH": os.defpath, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                cwd="/",
                start_new_session=True,  # What it forks is killed with it.
            )
        if self._is_stopped:
            self._kill()  # `stop` waits for this thread, and met no process.

    def _answer(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Answer:
        if not self.is_active:
            raise Unanswered(f"it is off: {self.problem}")
        self.calls += 1
        try:
            names = None if nodes is self._candidates else list(nodes)
            self._send(Question(*self._changes(inputs), pod_of_question(pod), names), self.deadline_seconds)
            self._candidates = nodes
            late = f"no answer within its deadline of {self.settings.deadline_ms:g} ms"
            reply = self._receive(self.deadline_seconds, late)
            values = self._checked(reply, len(nodes))
        except Unanswered as error:
            self._fail(str(error))
            raise
        self.problem, self.failures_in_a_row = "", 0
        return values, reply.reasons

    def _checked(self, reply: Reply, count: int) -> FloatArray:
        if len(reply.values) != 8 * count:
            raise Unanswered(f"{len(reply.values)} bytes of values for {count} nodes")
        values = np.frombuffer(reply.values, np.float64)
        if np.isinf(values).any():
            raise Unanswered("a score is infinite")
        if self.group == FILTERS_GROUP and not (np.isnan(values) | np.isin(values, range(len(reply.reasons)))).all():
            raise Unanswered("a refusal without a reason")
        return values

    def _send(self, question: Question, seconds: float) -> None:
        try:
            self._socket.settimeout(seconds)
            send(self._socket, question)
        except TimeoutError:
            raise Unanswered("it does not take a question within its deadline") from None
        except OSError as error:
            raise self._ended() from error

    def _receive(self, seconds: float, late: str) -> Reply:
        try:
            self._socket.settimeout(seconds)
            (length,) = LENGTH.unpack(self._replies.read(LENGTH.size))
            if length > MAX_REPLY_BYTES:
                raise Unanswered(f"an answer of {length:,} bytes; at most {MAX_REPLY_BYTES:,}")
            reply = _REPLY.decode(self._replies.read(length))
        except TimeoutError:
            raise Unanswered(late) from None
        except (struct.error, OSError) as error:
            raise self._ended() from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unanswered(f"an answer that cannot be read: {error}") from error
        if reply.problem:
            raise Unanswered(reply.problem)
        return reply

    def _ended(self) -> Unanswered:
        assert self._process is not None
        try:
            return Unanswered(f"the process ended with code {self._process.wait(0.05)}")
        except subprocess.TimeoutExpired:
            return Unanswered("the process closed its end")

    def _fail(self, problem: str) -> None:
        self.failures += 1
        self.failures_in_a_row += 1
        self.is_active, self.problem = False, problem
        if self.failures_in_a_row >= FAILURES_UNTIL_OFF:
            self._off_until = self._clock() + OFF_SECONDS
        self._end()

    def _kill(self) -> None:
        if process := self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _end(self) -> None:
        self._kill()
        if self._process is not None:
            self._replies.close()
            self._socket.close()
            self._process.wait()
        self._process = None

    def _changes(self, inputs: DecisionInputs) -> tuple[list[Node], bool]:
        """Lists the nodes that changed since the last question, and tells whether these are all there are."""
        states, labels, view = inputs.snapshot.nodes, inputs.node_labels, inputs.view()
        index, fresh, before = view.index, view.fresh, self._sent
        self._sent = (states, labels, index, fresh)
        is_whole = before is None or index is not before[2] or labels is not before[1]
        if before is not None and states is not before[0]:
            is_whole = is_whole or not before[0].keys() <= states.keys()  # A node has left.
        if before is None or is_whole:
            changed = set(states)
        elif states is before[0] and np.array_equal(fresh, before[3]):
            return [], False
        else:
            changed = {index.nodes[at] for at in np.flatnonzero(fresh[:-1] != before[3][:-1]).tolist()} & states.keys()
            changed |= {name for name, state in states.items() if state is not before[0].get(name)}

        return [
            _node(name, states[name], bool(fresh[index.position(name)]), None if labels is None else labels.get(name))
            for name in changed
        ], is_whole


def pod_of_question(pod: PodInfo) -> Pod:
    """Returns the pod as a plugin sees it."""
    requests = None if pod.requests is None else dict(pod.requests.in_cores())
    return Pod(pod.namespace, pod.name, dict(pod.labels), pod.priority, requests)


def _node(name: str, state: NodeState, fresh: bool, labels: Mapping[str, str] | None) -> Node:
    identity, hardware = state.identity, state.hardware
    return Node(
        name,
        fresh,
        identity.zone if identity else "",
        identity.rack if identity else "",
        hardware.values if fresh and hardware else {},
        labels,
    )
