"""Defines what the API keeps between requests: the newest view, the history, what was decided, and the event
streams."""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from extender.api.history import MINUTE_SECONDS, DelayHistory
from extender.api.requests import RequestError, iso
from extender.api.view import ClusterView, make_view
from extender.decider import DEFAULT_CORE, DecisionCore, RequestProbes
from extender.journal import MAX_PODS, Journal, JournalEntry, RefusedPod
from extender.metrics import ExtenderMetrics
from extender.plugins.process import Plugin
from extender.worker_pool import DeadlineExceeded, WorkerPool
from leadsman.decision.model import PodInfo
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.server_tls import ServerTls
from leadsman.sources.device_reservations import DeviceReservations
from leadsman.sources.wiring import InputSources


class CertificateDays(Struct, frozen=True):
    """Days until a certificate expires; null: it cannot be read."""

    name: str
    days_left: float | None


class ApiSources(Struct, frozen=True):
    """Everything that the API reads from. replica: this process's name among the replicas: its host name, in a cluster
    the pod's.

    policy_path: "": the default policy.
    plugins: what each plugin of the policy does.
    core: what decides a what-if.
    request_probes: None: nobody can be asked to measure.
    reservations: of devices; None: nothing of them is reserved.
    tls: of kube-scheduler's listener; None: it is plain HTTP.
    grafana_url: where a pair's past is shown, with {a} and {b} for the nodes' names; "": nowhere.
    wall_clock: Unix seconds.
    """

    inputs: InputSources
    journal: Journal
    metrics: ExtenderMetrics
    workers: WorkerPool
    wall_clock: Callable[[], float]
    replica: str = field(default_factory=socket.gethostname)
    policy_path: str = ""
    plugins: Callable[[], Sequence[Plugin]] = tuple
    core: DecisionCore = DEFAULT_CORE
    request_probes: RequestProbes | None = None
    reservations: DeviceReservations | None = None
    grafana_url: str = ""
    tls: ServerTls | None = None

    @property
    def problems(self) -> Mapping[str, str]:
        """Returns what of this process's inputs cannot be read as it is now → why."""
        problems = {"policy file": self.inputs.policy.problem.text}
        problems |= {f"delays of {source}": text for source, text in self.inputs.delays.problems.items()}
        problems["certificates"] = self.tls.problem.text if self.tls else ""
        return {name: text for name, text in problems.items() if text}

    @property
    def certificates(self) -> Sequence[CertificateDays]:
        now, expires_at = self.wall_clock(), self.tls.expires_at if self.tls else {}
        return [CertificateDays(name, round((at - now) / 86_400, 2)) for name, at in sorted(expires_at.items())]

    def wall_time(self, moment: float) -> float:
        """Turns a moment of the inputs' clock into Unix seconds."""
        return self.wall_clock() - self.inputs.clock() + moment


class DecisionRates(Struct, frozen=True):
    """Counts what this replica decided in the last minute; null: nothing.

    refused: nodes refused by the decisions that the journal keeps, the oldest of which is of kept_since; null: it keeps
    none. refused_by_reason: for the most frequent reasons.
    decided: decisions since the start. neutral: those among them that let every node pass alike.
    """

    per_minute: float
    p50_ms: float | None
    p99_ms: float | None
    refused: int
    kept_since: str | None
    refused_by_reason: Mapping[str, int]
    decided: int
    neutral: int


class WaitingPods(Struct, frozen=True):
    """Counts pods with delay bounds for which this replica last found no node. pod: the one that waits longest."""

    bounded_pods: int
    longest_seconds: float | None
    pod: str | None


MAX_REASONS = 10
MAX_STREAMS = 32

_KEEP_ALIVE = b": nothing changed\n\n"


class ChangeEvent(Struct, frozen=True):
    """A server-sent event that says which parts changed. sections: "nodes", "delays", "decisions"."""

    sections: Sequence[str]
    revision: int


_log = logging.getLogger(__name__)

MIN_AGE_SECONDS, MAX_AGE_SECONDS = 2.0, 10.0
"""A view is made again when it is older than the first and the state changed, or older than the second."""

TICK_SECONDS = 2.0
PAGE_TIMEOUT_SECONDS = 5.0

T = TypeVar("T")


class LiveState:
    """Keeps the newest view, the delay history and the event streams. `run` it as one task.

    streams: event streams that are open.
    history: of delays. It is kept from the first `keep_history` on: an extender whose page nobody opens has none of it.
    """

    def __init__(self, sources: ApiSources) -> None:
        self.sources = sources
        self.history = DelayHistory(sources.wall_clock())
        self._next_minute = float("inf")
        self.streams, self._closed = 0, asyncio.Event()
        self._view: ClusterView | None = None
        self._making: asyncio.Task[ClusterView] | None = None
        self._problem = ProblemLog(
            _log, "the delay history lacks this minute; the next is tried", "the delay history goes on", logging.ERROR
        )

    async def view(self) -> ClusterView:
        """Returns a view that is new enough; requests that wait share the one being made."""
        if self._view is not None and not self._is_due(self._view):
            return self._view
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make_view(), name="make the API's view")
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    def _is_due(self, view: ClusterView) -> bool:
        age = self.sources.inputs.clock() - view.made_at
        changed = self.sources.inputs.state.current is not view.snapshot
        is_empty = not view.snapshot.nodes  # Of the start, before the state was read.
        return age > MAX_AGE_SECONDS or (changed and (is_empty or age > MIN_AGE_SECONDS))

    async def _make_view(self) -> ClusterView:
        inputs, at = self.sources.inputs.current_inputs(), self.sources.wall_clock()
        self._view = await run_in_daemon_thread(lambda: make_view(inputs, at), "leadsman-api-view")
        return self._view

    def _made(self, task: asyncio.Task[ClusterView]) -> None:
        self._making = None
        if not task.cancelled():
            task.exception()  # Those who waited have it; unread, asyncio would log it as lost.

    async def on_worker(self, make: Callable[[], T]) -> T:
        """Returns what `make` returns; one job of the API runs at a time, so that decisions keep the other threads.
        RequestError 503 when it takes too long."""
        try:
            return await self.sources.workers.run(make, PAGE_TIMEOUT_SECONDS, "/api/v1")
        except DeadlineExceeded as error:
            raise RequestError(503, str(error)) from error

    async def run(self) -> None:
        """Keeps the history until cancelled. A minute of the history that cannot be made is left out and logged."""
        while True:
            if self.sources.inputs.clock() >= self._next_minute:
                self._next_minute += MINUTE_SECONDS
                await self._keep_minute()
            await asyncio.sleep(TICK_SECONDS)

    def keep_history(self) -> None:
        """Keeps the delays of each minute from now on, unless it does so already."""
        if self._next_minute == float("inf"):
            self._next_minute, at = self.sources.inputs.clock(), self.sources.wall_clock()
            if self.history.is_empty:
                self.history = DelayHistory(at)

    async def _keep_minute(self) -> None:
        try:
            view = await self.view()
            await run_in_daemon_thread(lambda: self.history.add(view.at, view.table), "leadsman-api-history")
        except Exception as error:  # Whatever a view stumbles over must not end the extender.
            self._problem.report(error, traceback=True)
        else:
            self._problem.clear()

    def rates(self) -> DecisionRates:
        """Counts the decisions of the last minute, and what those that are kept refused."""
        sources, refused = self.sources, Counter[str]()
        entries = sources.journal.newest(MAX_PODS)
        for entry in entries:
            if entry.filter_result:
                refused.update(refusal.reason for refusal in entry.filter_result.refused.values())
        per_minute, seconds = sources.metrics.recent_filters()
        p50_ms, p99_ms = (
            round(1000 * seconds[int(share * (len(seconds) - 1))], 3) if seconds else None for share in (0.5, 0.99)
        )
        return DecisionRates(
            round(per_minute, 2),
            p50_ms,
            p99_ms,
            refused.total(),
            iso(sources.wall_time(entries[-1].decided_at)) if entries else None,
            dict(refused.most_common(MAX_REASONS)),
            *sources.metrics.decisions,
        )

    def waiting(self) -> WaitingPods:
        """Tells which pods wait by this replica's attempts, and are there without a node."""
        now = self.sources.inputs.clock()
        waiting = [pod for pod in self.sources.journal.waiting(now) if self.is_unplaced(pod)]
        if not waiting:
            return WaitingPods(0, None, None)
        longest = min(waiting, key=lambda pod: pod.since)
        return WaitingPods(len(waiting), round(now - longest.since, 1), f"{longest.namespace}/{longest.name}")

    def is_unplaced(self, pod: RefusedPod | PodInfo) -> bool:
        """Tells whether the pod is there and has no node, as far as this replica follows pods."""
        workloads = self.sources.inputs.workloads
        return workloads is None or workloads.is_unplaced(pod.namespace, pod.name, pod.uid)

    @contextlib.asynccontextmanager
    async def open_stream(self) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """Gives the server-sent events of one reader, who is told every TICK_SECONDS what changed. Raises
        RequestError.

        https://html.spec.whatwg.org/multipage/server-sent-events.html
        """
        if self.streams >= MAX_STREAMS:
            raise RequestError(429, f"{MAX_STREAMS} event streams are open already; ask again later")
        self.streams += 1
        try:
            async with contextlib.aclosing(self._events()) as events:
                yield events
        finally:
            self.streams -= 1

    async def _events(self) -> AsyncGenerator[bytes]:
        shown = self._newest()
        yield _KEEP_ALIVE
        while not await self._is_closed_within(TICK_SECONDS):
            before, shown = shown, self._newest()
            nodes = ["nodes", "delays"] if shown[0] != before[0] else []
            sections = [*nodes, "decisions"] if shown[1] is not before[1] else nodes
            event = msgspec.json.encode(ChangeEvent(sections, shown[0]))
            yield b"event: change\ndata: " + event + b"\n\n" if sections else _KEEP_ALIVE

    async def _is_closed_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), seconds)
        return self._closed.is_set()

    def _newest(self) -> tuple[int, JournalEntry | None]:
        """Returns the state's revision, and the decision that was made last."""
        return self.sources.inputs.state.current.revision, next(iter(self.sources.journal.newest(1)), None)

    def close(self) -> None:
        """Ends all streams."""
        self._closed.set()
