"""One plugin as the extender sees it: its process, what that knows of the nodes, and its health."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from extender.plugins.channel import Channel, PluginFailed, WorkerCommand
from extender.plugins.frames import Answer, Ask, Failed, NodesChanged, Ready
from extender.plugins.health import Health
from leadsman.decision.columns import FloatArray
from leadsman.decision.inputs import DecisionInputs, NodeLabels
from leadsman.decision.model import PodInfo
from leadsman.decision.node_index import BoolArray, NodeIndex
from leadsman.kube import quantity
from leadsman.plugin import Node, Pod
from leadsman.state.snapshot import NodeState

START_SECONDS = 30.0
"""For the plugin's imports and the first table of nodes."""

ALL_PLUGINS_SECONDS = 0.1
"""Of one decision's 200 ms, for all plugins together, from the request on; the rest is for our own."""


class _SentNodes(Struct, frozen=True, eq=False):
    """What the process knows of the nodes. fresh: over the index."""

    states: Mapping[str, NodeState]
    labels: NodeLabels | None
    index: NodeIndex
    fresh: BoolArray


_NO_NODES: Sequence[str] = ()
_NOTHING_SENT = _SentNodes({}, None, NodeIndex(), np.zeros(1, np.bool_))


class PluginUnavailable(Exception):
    """The plugin is not asked now: why. That is no new failure."""


class RemotePlugin:
    """Asks one process. `start` and `reap` on the main thread; `ask` and `read` on any, one question at a time.

    on_failure: what a filter says becomes of nodes when it fails; "" before it is loaded.
    failures, calls: since the extender started. deadline_seconds: of one question.
    """

    def __init__(
        self, command: WorkerCommand, deadline_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.command, self.deadline_seconds, self._clock = command, deadline_seconds, clock
        self.health, self.on_failure = Health(), ""
        self.failures = self.calls = 0
        self._lock = threading.Lock()
        self._channel: Channel | None = None
        self._is_ready = False
        self._ended: list[Channel] = []
        self._sent, self._asked, self._number = _NOTHING_SENT, _NO_NODES, 0

    @property
    def is_active(self) -> bool:
        return self._is_ready

    @property
    def wants_start(self) -> bool:
        return self._channel is None and not self.health.is_off(self._clock())

    @property
    def pid(self) -> int | None:
        return self._channel.pid if self._channel else None

    def start(self) -> None:
        """OSError when no process can be made."""
        self._channel = Channel(self.command, self._clock)

    def warm_up(self, inputs: DecisionInputs) -> None:
        """Waits until the plugin is loaded, and sends it the nodes. Blocks, START_SECONDS at most."""
        with self._lock:
            until = self._clock() + START_SECONDS
            try:
                channel = self._running()
                first = channel.receive(until)
                if not isinstance(first, Ready):
                    raise PluginFailed(
                        first.problem if isinstance(first, Failed) else "it answered before it was asked"
                    )
                self._sync(channel, inputs, until)
            except PluginFailed as error:
                self._fail(str(error))
                return
            self.on_failure, self._is_ready = first.on_failure, True

    def ask(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> "PendingAnswer":
        """Sends the question. Until the answer is read or closed, nobody else can ask."""
        now = self._clock()
        until = min(now + self.deadline_seconds, inputs.now + ALL_PLUGINS_SECONDS)
        if not self._is_ready:
            off = f"it is off: {self.health.problem}" if self.health.problem else "it is starting"
            return PendingAnswer(self, nodes, until, off)
        if until <= now or not self._lock.acquire(timeout=until - now):
            return PendingAnswer(self, nodes, until, "no time was left to ask it")
        self.calls += 1
        try:
            channel = self._running()
            self._sync(channel, inputs, until)
            self._number += 1
            channel.send(Ask(self._number, _pod(pod), None if nodes is self._asked else list(nodes)), until)
            self._asked = nodes
        except PluginFailed as error:
            self._fail(str(error))
            self._lock.release()
            return PendingAnswer(self, nodes, until, str(error))
        return PendingAnswer(self, nodes, until)

    def read(self, until: float) -> Answer:
        """Of the question that was sent. PluginFailed."""
        try:
            answer = self._running().receive(until)
            if isinstance(answer, Failed):
                raise PluginFailed(answer.problem)
            if not isinstance(answer, Answer) or answer.number != self._number:
                raise PluginFailed("an answer to another question")
        except PluginFailed as error:
            self._fail(str(error))
            raise
        finally:
            self._lock.release()
        return answer

    def abandon(self) -> None:
        """Nobody reads the answer to the question that was sent."""
        self._end()
        self._lock.release()

    def accept(self) -> None:
        """The answer could be used."""
        self.health = self.health.answered()

    def reject(self, problem: str) -> None:
        """The answer could not be used."""
        with self._lock:
            self._fail(problem)

    def reap(self) -> None:
        """Removes processes that were ended."""
        ended, self._ended = self._ended, []
        for channel in ended:
            channel.close()

    def stop(self) -> None:
        with self._lock:
            self._end()
        self.reap()

    def _running(self) -> Channel:
        if self._channel is None:
            raise PluginFailed("its process has ended")
        return self._channel

    def _sync(self, channel: Channel, inputs: DecisionInputs, until: float) -> None:
        """Sends the nodes that changed since the last question."""
        states, labels = inputs.snapshot.nodes, inputs.node_labels
        index = inputs.cache.index(inputs.snapshot)
        fresh = inputs.cache.fresh_until(inputs.snapshot, index) > inputs.now
        before, gone = self._sent, list[str]()
        if index is not before.index or labels is not before.labels:
            changed, gone = set(states), [name for name in before.states if name not in states]
        elif states is before.states and np.array_equal(fresh, before.fresh):
            return
        else:
            flipped = np.flatnonzero(fresh[:-1] != before.fresh[:-1]).tolist()
            changed = {index.nodes[at] for at in flipped} & states.keys()
            changed |= {name for name, state in states.items() if state is not before.states.get(name)}
        by_node = labels.by_node if labels else {}
        sent = [
            _node(name, states[name], bool(fresh[index.position(name)]), by_node.get(name) if labels else None)
            for name in changed
        ]
        channel.send(NodesChanged(sent, gone), until)
        self._sent = _SentNodes(states, labels, index, fresh)

    def _fail(self, problem: str) -> None:
        self.failures += 1
        self.health = self.health.failed(problem, self._clock())
        self._end()

    def _end(self) -> None:
        """A process that failed once may be anywhere in the plugin's code: the next question goes to a new one."""
        if self._channel is not None:
            self._channel.kill()
            self._ended.append(self._channel)
        self._channel, self._is_ready = None, False
        self._sent, self._asked, self._number = _NOTHING_SENT, _NO_NODES, 0


class PendingAnswer:
    """A question that was sent to a plugin, or why it was not. Read it or close it.

    nodes: that it was about.
    """

    def __init__(self, plugin: RemotePlugin, nodes: Sequence[str], until: float, problem: str = "") -> None:
        self.plugin, self.nodes = plugin, nodes
        self._until, self._problem, self._is_open = until, problem, not problem

    def read(self) -> Answer:
        """Waits for the answer, within the question's deadline. PluginFailed; PluginUnavailable."""
        if self._problem:
            raise PluginUnavailable(self._problem)
        self._is_open = False
        return self.plugin.read(self._until)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.plugin.abandon()


def _pod(pod: PodInfo) -> Pod:
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


Places = NDArray[np.int16]


def score_values(answer: Answer, count: int) -> FloatArray:
    """NaN where the plugin knows nothing. PluginFailed."""
    if len(answer.values) != 8 * count:
        raise PluginFailed(f"{len(answer.values)} bytes of values for {count} nodes")
    values = np.frombuffer(answer.values, np.float64)
    if np.isinf(values).any():
        raise PluginFailed("a score is infinite")
    return values


def refusal_places(answer: Answer, count: int) -> Places:
    """The place of each node's reason; negative: it passes. PluginFailed."""
    if len(answer.refused) != 2 * count:
        raise PluginFailed(f"{len(answer.refused)} bytes of refusals for {count} nodes")
    places = np.frombuffer(answer.refused, np.int16)
    if count and places.max() >= len(answer.reasons):
        raise PluginFailed("a refusal without a reason")
    return places
