"""One plugin as the extender sees it, and the round of questions that one decision puts to several of them.

A round asks all plugins before it reads any answer, and then reads whichever arrives, so that a slow one takes no
time from the others. A plugin is blamed only when it had its whole deadline: it is then killed, since a process that is
late may be anywhere in its code, and after three failures in a row it is left alone for a minute.
"""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from extender.plugins.worker import LENGTH, MAX_REPLY_BYTES, Question, Reply, frame
from leadsman.decision.inputs import DecisionInputs, NodeLabels
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import PluginPolicy
from leadsman.decision.view import BoolArray, NodeIndex
from leadsman.kube import quantity
from leadsman.plugin import Node, Pod
from leadsman.state.snapshot import NodeState

START_SECONDS = 30.0
"""For the plugin's imports and the first table of nodes."""

ALL_PLUGINS_SECONDS = 0.1
"""Of one decision's 200 ms, for all plugins together, from the request on; the rest is for our own."""

FAILURES_UNTIL_OFF = 3
OFF_SECONDS = 60.0


class PluginFailed(Exception):
    """The plugin gave no answer that can be used: why."""


class Unanswered(Exception):
    """There is no answer of the plugin to this question: why."""


class Health(Struct, frozen=True):
    """Says when a plugin is asked: after three failures in a row not for a minute, and then again.

    failures: in a row. off_until: monotonic seconds. problem: the last failure's; "" while there is none.
    """

    failures: int = 0
    off_until: float = 0.0
    problem: str = ""

    def is_off(self, now: float) -> bool:
        return now < self.off_until

    def failed(self, problem: str, now: float) -> "Health":
        failures = self.failures + 1
        return Health(failures, now + OFF_SECONDS if failures >= FAILURES_UNTIL_OFF else 0.0, problem)


class SentNodes(Struct, frozen=True, eq=False):
    """What the process knows of the nodes. fresh: over the index."""

    states: Mapping[str, NodeState]
    labels: NodeLabels | None
    index: NodeIndex
    fresh: BoolArray


_NOTHING_SENT = SentNodes({}, None, NodeIndex(), np.zeros(1, np.bool_))
_REPLY = msgspec.msgpack.Decoder(Reply)


class Plugin:
    """A plugin and its process. Start and reap it on the main thread; one round at a time asks it, on any thread.

    on_failure: what a filter says becomes of nodes when it fails; "" before it is loaded.
    calls, failures: since the extender started. is_active: it is loaded and can be asked.
    """

    def __init__(self, group: str, settings: PluginPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self.group, self.settings, self.name, self._clock = group, settings, settings.name, clock
        self.deadline_seconds = settings.deadline_ms / 1000
        self.health, self.on_failure, self.is_active = Health(), "", False
        self.calls = self.failures = 0
        self.lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: list[subprocess.Popen[bytes]] = []
        self._begin()

    def _begin(self) -> None:
        """Forgets what only a process that has ended knew."""
        self._sent, self._number = _NOTHING_SENT, 0
        self._candidates: Sequence[str] | None = None
        self._received, self._owed_since = bytearray(), 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def wants_start(self) -> bool:
        return self._process is None and not self.health.is_off(self._clock())

    @property
    def why_not_active(self) -> str:
        return f"it is off: {self.health.problem}" if self.health.problem else "it is starting"

    def start(self) -> None:
        """Starts the process, on the main thread: it ends with the thread that started it. OSError."""
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
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

    def warm_up(self, inputs: DecisionInputs) -> None:
        """Waits until the plugin is loaded, and sends it the nodes. Blocks, START_SECONDS at most."""
        with self.lock:
            until = self._clock() + START_SECONDS
            try:
                while (reply := self.arrived()) is None:
                    if not wait_for([self], until - self._clock()):
                        raise PluginFailed(f"it was not loaded within {START_SECONDS:g} s")
                self._send(Question(0, *self._changes(inputs)), until)
            except PluginFailed as error:
                self.fail(str(error))
                return
            self.on_failure, self.is_active = reply.on_failure, True

    def ask(self, pod: Pod, nodes: Sequence[str], inputs: DecisionInputs, until: float) -> None:
        """Sends the question, by monotonic `until`. The caller has the lock. PluginFailed."""
        if self._owed_since and self.arrived() is None and self._clock() - self._owed_since >= self.deadline_seconds:
            raise PluginFailed(self._late())
        self.calls += 1
        self._number += 1
        same = nodes is self._candidates
        self._send(Question(self._number, *self._changes(inputs), pod, None if same else list(nodes)), until)
        self._candidates = nodes
        self._owed_since = self._owed_since or self._clock()

    def arrived(self) -> Reply | None:
        """Reads the reply to the newest question, without waiting; None: it is not here yet. PluginFailed."""
        if self._process is None:
            raise PluginFailed("its process has ended")
        while True:
            reply = self._take_reply()
            if reply is None:
                if not self._receive():
                    return None
            elif reply.number == self._number:
                self._owed_since = 0.0
                if reply.problem:
                    raise PluginFailed(reply.problem)
                return reply

    def _receive(self) -> bool:
        """Takes what the process has sent; False: nothing is here."""
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError as error:
            raise PluginFailed(self._why_it_ended()) from error
        if not data:
            raise PluginFailed(self._why_it_ended())
        self._received += data
        return True

    def _take_reply(self) -> Reply | None:
        """Takes the next whole reply out of what was received; an earlier question's may come late."""
        if len(self._received) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._received)
        if length > MAX_REPLY_BYTES:
            raise PluginFailed(f"an answer of {length:,} bytes; at most {MAX_REPLY_BYTES:,}")
        end = LENGTH.size + length
        if len(self._received) < end:
            return None
        content = bytes(self._received[LENGTH.size : end])
        del self._received[:end]
        try:
            return _REPLY.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PluginFailed(f"an answer that cannot be read: {error}") from error

    def give_up(self, now: float) -> str:
        """Says why a round waits no longer. Fails the plugin only where it had its whole deadline."""
        if now - self._owed_since < self.deadline_seconds:
            return "no time was left for its answer"
        self.fail(self._late())
        return self._late()

    def succeed(self) -> None:
        """Notes that an answer could be used."""
        self.health = Health()

    def fail(self, problem: str) -> None:
        """Notes a failure, and ends the process. The caller has the lock."""
        self.failures += 1
        self.health = self.health.failed(problem, self._clock())
        self._end()

    def reap(self) -> None:
        """Removes processes that were ended."""
        ended, self._ended = self._ended, []
        for process in ended:
            process.wait()

    def stop(self) -> None:
        with self.lock:
            self._end()
        self.reap()

    def fileno(self) -> int:
        return self._socket.fileno()

    def _late(self) -> str:
        return f"no answer within its deadline of {self.settings.deadline_ms:g} ms"

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._socket.close()
            self._ended.append(self._process)
        self._process, self.is_active = None, False
        self._begin()

    def _why_it_ended(self) -> str:
        assert self._process is not None
        try:
            return f"the process ended with code {self._process.wait(0.05)}"
        except subprocess.TimeoutExpired:
            return "the process closed its end"

    def _send(self, question: Question, until: float) -> None:
        view = memoryview(frame(question))
        while view:
            left = until - self._clock()
            if left <= 0 or not select.select([], [self], [], left)[1]:
                raise PluginFailed("it does not take a question within its deadline")
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PluginFailed(self._why_it_ended()) from error

    def _changes(self, inputs: DecisionInputs) -> tuple[list[Node], list[str]]:
        """Lists the nodes that changed since the last question, and those that are gone."""
        states, labels = inputs.snapshot.nodes, inputs.node_labels
        view = inputs.view()
        index, fresh = view.index, view.fresh
        before, gone = self._sent, list[str]()
        if index is not before.index or labels is not before.labels:
            changed, gone = set(states), [name for name in before.states if name not in states]
        elif states is before.states and np.array_equal(fresh, before.fresh):
            return [], []
        else:
            flipped = np.flatnonzero(fresh[:-1] != before.fresh[:-1]).tolist()
            changed = {index.nodes[at] for at in flipped} & states.keys()
            changed |= {name for name, state in states.items() if state is not before.states.get(name)}
        by_node = labels.by_node if labels else {}
        self._sent = SentNodes(states, labels, index, fresh)
        return [
            _node(name, states[name], bool(fresh[index.position(name)]), by_node.get(name) if labels else None)
            for name in changed
        ], gone


def wait_for(plugins: Sequence[Plugin], seconds: float) -> bool:
    """Waits until one of the plugins has sent something; False when none did."""
    poll = select.poll()
    for plugin in plugins:
        poll.register(plugin, select.POLLIN)
    return bool(poll.poll(max(seconds, 0.0) * 1000))


class Round:
    """The questions of one decision. All plugins work meanwhile, and the first that is read waits for all of them."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        pod: PodInfo,
        nodes: Sequence[str],
        inputs: DecisionInputs,
        clock: Callable[[], float] = time.monotonic,
        began: float | None = None,
    ) -> None:
        """began: when the shared time of the plugins began; None: with the inputs, as for a request."""
        self.nodes, self._clock = nodes, clock
        self._results: dict[Plugin, Reply | str] = {}
        self._open: dict[Plugin, float] = {}
        sent, end = pod_of_question(pod), (inputs.now if began is None else began) + ALL_PLUGINS_SECONDS
        try:
            # Free ones first: waiting for one that another decision holds takes no time from them.
            busy = [plugin for plugin in plugins if not self._ask(plugin, sent, inputs, end, waits=False)]
            for plugin in busy:
                self._ask(plugin, sent, inputs, end, waits=True)
        except BaseException:
            self.close()
            raise

    def _ask(self, plugin: Plugin, pod: Pod, inputs: DecisionInputs, end: float, *, waits: bool) -> bool:
        """Asks one plugin, or notes why not; False where another decision holds it and nobody `waits`."""
        now = self._clock()
        until = min(now + plugin.deadline_seconds, end)
        if not plugin.lock.acquire(timeout=max(until - now, 0.0) if waits else 0.0):
            if waits:
                self._results[plugin] = "no time was left to ask it"
            return waits
        self._open[plugin] = until
        if not plugin.is_active:
            self._settle(plugin, plugin.why_not_active)
        elif self._clock() >= until:
            self._settle(plugin, "no time was left to ask it")
        else:
            try:
                plugin.ask(pod, self.nodes, inputs, until)
            except PluginFailed as error:
                self._fail(plugin, error)
        return True

    def reply(self, plugin: Plugin) -> Reply:
        """The plugin's reply. Unanswered says why there is none."""
        self._collect()
        result = self._results[plugin]
        if isinstance(result, str):
            raise Unanswered(result)
        return result

    def close(self) -> None:
        """Lets the plugins go whose replies nobody reads."""
        for plugin in self._open:
            plugin.lock.release()
        self._open.clear()

    def _collect(self) -> None:
        """Reads what arrives until nobody is waited for. What is here counts, however late this thread looks."""
        while self._open:
            for plugin, until in list(self._open.items()):
                try:
                    reply = plugin.arrived()
                except PluginFailed as error:
                    self._fail(plugin, error)
                    continue
                now = self._clock()
                if reply is not None:
                    self._settle(plugin, reply)
                elif now >= until:
                    self._settle(plugin, plugin.give_up(now))
            if self._open:
                wait_for(list(self._open), min(self._open.values()) - self._clock())

    def _fail(self, plugin: Plugin, error: PluginFailed) -> None:
        plugin.fail(str(error))
        self._settle(plugin, str(error))

    def _settle(self, plugin: Plugin, result: Reply | str) -> None:
        self._results[plugin] = result
        del self._open[plugin]
        plugin.lock.release()


def pod_of_question(pod: PodInfo) -> Pod:
    """The pod as a plugin sees it."""
    requests = None
    if pod.requests is not None:
        requests = {name: quantity.to_float(nanos) for name, nanos in pod.requests.items()}
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
