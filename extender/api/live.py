"""What the API keeps between requests: the newest view, the history, what was decided, and the event streams."""

import asyncio
import logging
import socket
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from extender.api.history import MINUTE_SECONDS, DelayHistory
from extender.api.requests import RequestError, iso
from extender.api.view import ClusterView, make_view
from extender.decider import DEFAULT_CORE, DecisionCore, RequestProbes
from extender.journal import MAX_PODS, Journal, JournalEntry
from extender.metrics import ExtenderMetrics
from extender.plugins.host import PluginState
from extender.worker_pool import DeadlineExceeded, WorkerPool
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.server_tls import ServerTls
from leadsman.sources.input_sources import InputSources


class CertificateDays(Struct, frozen=True):
    """days_left: until it expires; null: it cannot be read."""

    name: str
    days_left: float | None


class ApiSources(Struct, frozen=True):
    """replica: the name of this process among the replicas: in a cluster the pod's, which is its host name.

    policy_path: "": the default policy.
    plugins: what each plugin of the policy does.
    core: what decides a what-if.
    request_probes: None: nobody can be asked to measure.
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
    plugins: Callable[[], Sequence[PluginState]] = tuple
    core: DecisionCore = DEFAULT_CORE
    request_probes: RequestProbes | None = None
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
        """Unix seconds of a moment of the inputs' clock."""
        return self.wall_clock() - self.inputs.clock() + moment


class DecisionRates(Struct, frozen=True):
    """What this replica decided in the last minute; null: nothing.

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
    """Pods with delay bounds that no node passed when this replica was asked last. pod: the one that waits longest."""

    bounded_pods: int
    longest_seconds: float | None
    pod: str | None


WINDOW_SECONDS = 60.0
MAX_REASONS = 10

FORGET_SECONDS = 400.0
"""kube-scheduler tries a pod again after 300 s at the latest: one that it does not try any more is placed or gone."""

CumulativeBuckets = Mapping[float, float]
"""Upper end in seconds → observations up to it since start; the last end is infinite."""


class TriedPod(Struct, frozen=True):
    """A pod with delay bounds, and the attempts to place it.

    name: as namespace/name. refused_since: the first in a row that no node passed; None: a node passed the last one.
    tried_at: the last one. All are monotonic seconds.
    """

    name: str
    refused_since: float | None
    tried_at: float


class DecisionCounts:
    """What this replica decided lately; `sample` it every few seconds.

    A rate is the difference of a histogram's counts at two moments, and since when a pod waits is known by having seen
    each of its attempts. newest: the decision that was made last; None: none is kept.
    """

    def __init__(self, sources: ApiSources) -> None:
        self._sources = sources
        self._samples = deque[tuple[float, CumulativeBuckets]]()
        self._tried: Mapping[str, TriedPod] = {}
        self.newest: JournalEntry | None = None

    def sample(self) -> None:
        now, entries = self._sources.inputs.clock(), self._sources.journal.newest(MAX_PODS)
        self._samples.append((now, self._sources.metrics.request_buckets("filter")))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        self._tried = tried_pods(self._tried, reversed(entries), now)
        self.newest = entries[0] if entries else None

    def rates(self) -> DecisionRates:
        """Of the last WINDOW_SECONDS; what was refused: by the decisions that are kept."""
        seconds, buckets = self._window()
        refused = Counter[str]()
        entries = self._sources.journal.newest(MAX_PODS)
        for entry in entries:
            if entry.filter_result:
                refused.update(refusal.reason for refusal in entry.filter_result.refused.values())
        return DecisionRates(
            round(60 * max(buckets.values(), default=0.0) / seconds, 2) if seconds else 0.0,
            quantile_ms(buckets, 0.5),
            quantile_ms(buckets, 0.99),
            refused.total(),
            iso(self._sources.wall_time(entries[-1].decided_at)) if entries else None,
            dict(refused.most_common(MAX_REASONS)),
            self._sources.metrics.decisions,
            self._sources.metrics.neutral_decisions,
        )

    def _window(self) -> tuple[float, CumulativeBuckets]:
        """Seconds between the oldest and the newest sample, and what was observed between them."""
        if len(self._samples) < 2:
            return 0.0, {}
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return ended - began, {end: count - before.get(end, 0.0) for end, count in after.items()}

    def waiting(self) -> WaitingPods:
        """By this replica's attempts: where another one placed a pod since, it counts here for FORGET_SECONDS."""
        waiting = {each.name: each.refused_since for each in self._tried.values() if each.refused_since is not None}
        if not waiting:
            return WaitingPods(0, None, None)
        longest = min(waiting, key=lambda name: waiting[name])
        return WaitingPods(len(waiting), round(self._sources.inputs.clock() - waiting[longest], 1), longest)


def tried_pods(before: Mapping[str, TriedPod], entries: Iterable[JournalEntry], now: float) -> Mapping[str, TriedPod]:
    """Maps UIDs to pods, by the journal's entries and what was known before."""
    tried = dict(before)
    for entry in entries:
        pod = entry.pod
        if not pod.has_delay_bounds or entry.filter_result is None:
            continue
        refused_since = None
        if not entry.filter_result.kept:
            known = tried.get(pod.uid)
            refused_since = entry.decided_at if known is None or known.refused_since is None else known.refused_since
        tried[pod.uid] = TriedPod(f"{pod.namespace}/{pod.name}", refused_since, entry.decided_at)
    return {uid: pod for uid, pod in tried.items() if now - pod.tried_at < FORGET_SECONDS}


def quantile_ms(buckets: CumulativeBuckets, quantile: float) -> float | None:
    """As Prometheus' histogram_quantile: linear within a bucket; above the last finite end that end. None: empty."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return None
    rank = quantile * total
    for (low, below), (high, upto) in pairwise([(0.0, 0.0), *sorted(buckets.items())]):
        if upto >= rank:
            seconds = low if high == float("inf") else low + (high - low) * (rank - below) / (upto - below)
            return round(1000 * seconds, 3)
    return None


MAX_STREAMS = 32
MAX_BEHIND = 8
"""Events that a reader may be behind; then its stream ends, and the browser connects again and reads all."""

KEEP_ALIVE_SECONDS = 3.0
"""Within which a reader that left is noticed, and its place free again."""

_KEEP_ALIVE = b": nothing changed\n\n"


class ChangeEvent(Struct, frozen=True):
    """A server-sent event: which parts changed. sections: "nodes", "delays", "decisions"."""

    sections: Sequence[str]
    revision: int


class TooManyStreams(Exception):
    """There are MAX_STREAMS already."""


class ChangeStreams:
    """Server-sent events to a bounded number of readers that keep up. Use from one event loop.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """

    def __init__(self) -> None:
        self._queues = set[asyncio.Queue[bytes | None]]()

    def __len__(self) -> int:
        return len(self._queues)

    def send(self, event: ChangeEvent) -> None:
        """To all streams. Never blocks: the stream of a reader that is too far behind ends."""
        data = b"event: change\ndata: " + msgspec.json.encode(event) + b"\n\n"
        for queue in list(self._queues):
            if queue.qsize() >= MAX_BEHIND:
                self._queues.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(data)

    def close(self) -> None:
        """Ends all streams."""
        for queue in list(self._queues):
            self._queues.discard(queue)
            queue.put_nowait(None)

    def open(self) -> AsyncGenerator[bytes]:
        """Returns what to write to one reader. TooManyStreams."""
        if len(self._queues) >= MAX_STREAMS:
            raise TooManyStreams
        queue = asyncio.Queue[bytes | None]()
        self._queues.add(queue)
        return self._events(queue)

    async def _events(self, queue: asyncio.Queue[bytes | None]) -> AsyncGenerator[bytes]:
        try:
            yield _KEEP_ALIVE
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        data = await queue.get()
                except TimeoutError:
                    data = _KEEP_ALIVE
                if data is None:
                    return
                yield data
        finally:
            self._queues.discard(queue)


_log = logging.getLogger(__name__)

MIN_AGE_SECONDS, MAX_AGE_SECONDS = 2.0, 10.0
"""A view is made again when it is older than the first and the state changed, or older than the second."""

TICK_SECONDS = 2.0
PAGE_TIMEOUT_SECONDS = 5.0

T = TypeVar("T")


class LiveState:
    """`run` it as one task.

    history: of delays. It is kept from the first `keep_history` on: an extender whose page nobody opens has none of it.
    """

    def __init__(self, sources: ApiSources) -> None:
        self.sources = sources
        self.history = DelayHistory(sources.wall_clock())
        self._next_minute = float("inf")
        self.decisions, self.streams = DecisionCounts(sources), ChangeStreams()
        self._view: ClusterView | None = None
        self._making: asyncio.Task[ClusterView] | None = None
        self._shown: tuple[int, object] = (-1, None)
        self._problem = ProblemLog(
            _log, "the delay history lacks this minute; the next is tried", "the delay history goes on", logging.ERROR
        )

    async def view(self) -> ClusterView:
        """A view that is new enough. All who wait share one that is being made."""
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
        """Until cancelled. A minute of the history that cannot be made is left out and logged."""
        while True:
            self._tick()
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

    def _tick(self) -> None:
        self.decisions.sample()
        revision, newest = self.sources.inputs.state.current.revision, self.decisions.newest
        nodes = ["nodes", "delays"] if revision != self._shown[0] else []
        if sections := [*nodes, "decisions"] if newest is not self._shown[1] else nodes:
            self.streams.send(ChangeEvent(sections, revision))
        self._shown = (revision, newest)
