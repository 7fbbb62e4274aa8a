"""Delays from Goldpinger, polled.

/check_all makes every pod check every other, so one answer is the whole cluster's. What it says holds from when it was
asked for, on our own monotonic clock. Newer Goldpingers ping by themselves and repeat their last result: a
reporter whose newest ping stays the same for as long as data may be old has stopped, and counts no more.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Set

import aiohttp
from msgspec import Struct
from yarl import URL

from leadsman.decision.delay.views import SourceRow
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.goldpinger_response import (
    ROUNDING_MS,
    BadCheckAll,
    CheckAllResponse,
    GoldpingerReport,
    parse_check_all,
)

log = logging.getLogger(__name__)

SOURCE = "goldpinger"


class GoldpingerSettings(Struct, frozen=True):
    """interval: from one answer to the next question, ± 10 %. Data are used for `stale_intervals` of them, so that one
    failed poll loses nothing. deadline: of one poll; Goldpinger itself gives up after 5 s by default. largest_bytes:
    some 400 pods have 32 MiB, as each of n reports n - 1 others.
    """

    interval_seconds: float = 30.0
    stale_intervals: float = 3.0
    deadline_seconds: float = 10.0
    max_response_bytes: int = 32 << 20

    @property
    def stale_seconds(self) -> float:
        return self.interval_seconds * self.stale_intervals


class GoldpingerView(Struct, frozen=True, eq=False):
    """A view as leadsman.decision.delay.views.Delays wants it."""

    reports: Mapping[str, GoldpingerReport]
    nodes: Set[str]
    read_at: float
    fresh_until: float
    source: str = SOURCE

    def row(self, reference: str) -> SourceRow:
        own = self.reports.get(reference)
        backward = {
            node: rtt for node, report in self.reports.items() if (rtt := report.rtt_ms.get(reference)) is not None
        }
        silent = {node for node, report in self.reports.items() if reference in report.no_reply}
        if own is None:
            return SourceRow(backward=backward, no_reply=silent)
        return SourceRow(own.rtt_ms, backward, silent | own.no_reply)

    def measurements(self) -> Iterator[tuple[str, str, float]]:
        """Source, target, round trip in ms, in the middle of what was rounded away."""
        for source, report in self.reports.items():
            for target, rtt_ms in report.rtt_ms.items():
                yield source, target, rtt_ms - ROUNDING_MS / 2


class GoldpingerPoller:
    """`run` it as one task. current: None before the first answer. problem: why the last poll failed; "" when it did
    not. What was read before stays, and ages.

    names: host IP, pod IP or pod name → node, asked at each poll.
    """

    source = SOURCE

    def __init__(
        self,
        url: str,
        names: Callable[[], Mapping[str, str]],
        pace: GoldpingerSettings = GoldpingerSettings(),  # noqa: B008 -- frozen
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.current: GoldpingerView | None = None
        self.problem = ProblemLog(
            log,
            "delays of Goldpinger are missing; those already read are used until they are stale",
            "Goldpinger reports all delays again",
        )
        self._url = URL(url.rstrip("/").removesuffix("/check_all")) / "check_all"
        self._names, self._pace, self._clock, self._rng = names, pace, clock, rng or random.Random()
        self._stamps: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        """Polls until cancelled. The first poll is at once; polls do not overlap."""
        timeout = aiohttp.ClientTimeout(total=self._pace.deadline_seconds)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self.poll(session)
                await asyncio.sleep(self._pace.interval_seconds * self._rng.uniform(0.9, 1.1))

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """Never raises what Goldpinger or the way to it may cause."""
        asked_at, names = self._clock(), self._names()
        try:
            body = await self._body(session)
            found = await run_in_daemon_thread(lambda: parse_check_all(body, names), "leadsman-goldpinger")
        except (aiohttp.ClientError, TimeoutError, OSError, BadCheckAll) as error:
            self.problem.report(f"{self._url}: {str(error) or type(error).__name__}", kind=type(error).__name__)
        else:
            self._accept(found, asked_at)

    async def _body(self, session: aiohttp.ClientSession) -> bytes:
        async with session.get(self._url) as answer:
            if answer.status != 200:
                raise BadCheckAll(f"status {answer.status}, want 200")
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > self._pace.max_response_bytes:
                    raise BadCheckAll(f"more than {self._pace.max_response_bytes} bytes, want at most that")
            return bytes(body)

    def _accept(self, found: CheckAllResponse, asked_at: float) -> None:
        if found.unreadable:
            self.problem.report("; ".join(f"{pod}: {why}" for pod, why in list(found.unreadable.items())[:3]))
        else:
            self.problem.clear()
        reports = {node: report for node, report in found.reports.items() if self._is_pinging(node, report, asked_at)}
        self._stamps = {node: self._stamps[node] for node in found.reports}
        nodes = reports.keys() | {node for report in reports.values() for node in report.rtt_ms}
        self.current = GoldpingerView(reports, nodes, asked_at, asked_at + self._pace.stale_seconds)

    def _is_pinging(self, node: str, report: GoldpingerReport, now: float) -> bool:
        """Whether the reporter still pings."""
        stamp, since = self._stamps.get(node, ("", now))
        if report.last_pinged != stamp or not stamp:
            since = now
        self._stamps[node] = (report.last_pinged, since)
        return now - since < self._pace.stale_seconds
