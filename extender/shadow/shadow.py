"""The extender's side of the shadow policy: feeds the process that judges, and keeps what it says."""

import asyncio
import contextlib
import fcntl
import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.request_stream import RequestStream
from extender.shadow.frames import LONGEST_LINE_BYTES, ShadowChange, messages_frame, policy_frame, read_tally
from leadsman.decision.policy import Policy, digest
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.messages import join

log = logging.getLogger(__name__)

FRAME_BYTES, FRAME_SECONDS = 64 << 10, 0.25
"""A frame is sent when it has so many bytes or is so old: each wakes the process."""

PIPE_BYTES = 1 << 20
"""Linux's limit for processes without privileges: a second or two of requests at 5,000 nodes."""

MAX_CHANGES = 100
"""Changes that the page shows."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0


class PipeSink:
    """Sends messages down a pipe in frames, and the policy before the first and whenever it is another."""

    def __init__(self, pipe: int, policy: Callable[[], Policy], clock: Callable[[], float] = time.monotonic) -> None:
        self._pipe, self._policy, self._clock = pipe, policy, clock
        self._sent: Policy | None = None
        self._block: list[bytes] = []
        self._block_bytes, self._sent_at = 0, clock()

    @property
    def wants_begin(self) -> bool:
        return self._sent is None

    def begin(self, message: bytes) -> None:
        self.write([message])

    def write(self, messages: Sequence[bytes]) -> None:
        policy = self._policy()
        if policy is not self._sent:
            self.flush()
            self._sent = policy
            self._send(policy_frame(policy))
        self._block.extend(messages)
        self._block_bytes += sum(map(len, messages))
        if self._block_bytes >= FRAME_BYTES:
            self.flush()

    def end_request(self) -> None:
        if self._clock() - self._sent_at >= FRAME_SECONDS:
            self.flush()

    def flush(self) -> None:
        self._sent_at = self._clock()
        if self._block:
            self._send(messages_frame(join(self._block)))
            self._block, self._block_bytes = [], 0

    def close(self) -> None:
        os.close(self._pipe)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._pipe, view) :]


class RecentChange(Struct, frozen=True):
    """at: RFC 3339."""

    at: str
    change: ShadowChange


class ShadowPage(Struct, frozen=True):
    """What the page /shadow shows.

    policy, live_policy: digests. policy_problem: why the file as it is now is not in use.
    problem: why nothing is judged now. results: verb → result → how many, since the extender started, under every
    policy that the file held. changes: the newest first.
    """

    policy: str
    live_policy: str
    policy_problem: str
    problem: str
    results: Mapping[str, Mapping[str, int]]
    dropped: int
    changes: Sequence[RecentChange]


class Shadow:
    """The shadow policy of an extender. `observe` decided requests; `run` and `follow_policy` as tasks.

    Raises UnusableFile when the policy file cannot be used at start.
    """

    def __init__(
        self,
        path: Path,
        live_policy: Callable[[], Policy],
        is_busy: Callable[[], bool] = lambda: False,
        rng: Random | None = None,
    ) -> None:
        """is_busy: as in RequestStream."""
        self._file, self._live_policy, self._is_busy = PolicyFile(path), live_policy, is_busy
        self.follow_policy = self._file.follow
        self._results: Counter[tuple[str, str]] = Counter()
        self._changes: deque[RecentChange] = deque(maxlen=MAX_CHANGES)
        self._dropped = self._starts = 0
        self._stream: RequestStream | None = None
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, rng or Random())
        self._problem = ProblemLog(
            log,
            "the shadow policy is not judged until its process runs again; answers go on",
            "the shadow policy is judged again",
        )

    def observe(self, request: DecidedRequest) -> None:
        """Never blocks, never raises."""
        if self._stream is None:
            self._dropped += 1
        else:
            self._stream.offer(request)

    async def run(self) -> None:
        """Keeps a process judging until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self._run_process()
            except (OSError, ValueError) as error:  # ValueError: a line that is no tally.
                self._problem.report(error)
            if time.monotonic() - began > _LONGEST_PAUSE_SECONDS:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next_seconds())

    async def _run_process(self) -> None:
        """One process, until it ends."""
        source, pipe = os.pipe()
        with contextlib.suppress(OSError):  # Where it is not allowed, the default of 64 KiB does.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "extender.shadow.worker",
                stdin=source,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE_BYTES,
            )
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(source)
        self._starts += 1
        sink = PipeSink(pipe, lambda: self._file.current)
        stream = self._stream = RequestStream(sink, "judging of the shadow policy", is_busy=self._is_busy)
        stream.start()
        try:
            assert process.stdout
            async for line in process.stdout:
                self._take(line)
            self._problem.report(f"the process ended with code {await process.wait()}", kind="ended")
        finally:
            self._stream = None
            stream.abandon()
            self._dropped += stream.dropped
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # A write that waits for it fails then, and ends the stream's thread.
            await asyncio.shield(process.wait())

    def _take(self, line: bytes) -> None:
        self._problem.clear()
        tally = read_tally(line)
        for verb, results in tally.results.items():
            for result, number in results.items():
                self._results[verb, result] += number
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._changes.extendleft(RecentChange(at, change) for change in tally.changes)

    @property
    def dropped(self) -> int:
        return self._dropped + (self._stream.dropped if self._stream else 0)

    def page(self) -> ShadowPage:
        results: dict[str, dict[str, int]] = {}
        for (verb, result), number in sorted(self._results.items()):
            results.setdefault(verb, {})[result] = number
        return ShadowPage(
            digest(self._file.current),
            digest(self._live_policy()),
            self._file.problem.text,
            self._problem.text,
            results,
            self.dropped,
            list(self._changes),
        )

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        decisions = CounterMetricFamily(
            "leadsman_shadow_decisions",
            "Requests judged by the shadow policy, by verb and by what becomes of the answer.",
            labels=["verb", "result"],
        )
        for (verb, result), number in sorted(self._results.items()):
            decisions.add_metric([verb, result], number)
        yield decisions
        yield CounterMetricFamily(
            "leadsman_shadow_dropped_requests",
            "Requests that the shadow policy did not judge: its process was behind, or did not run.",
            self.dropped,
        )
        yield GaugeMetricFamily(
            "leadsman_shadow_active", "1 while the process of the shadow policy runs, else 0.", self._stream is not None
        )
        yield CounterMetricFamily(
            "leadsman_shadow_starts",
            "Starts of the process of the shadow policy; 1 when it never failed.",
            self._starts,
        )
        yield GaugeMetricFamily(
            "leadsman_shadow_policy_load_success",
            "1 when the shadow policy's file was valid when last read, 0 while the previous one stays in use.",
            not self._file.problem.text,
        )
