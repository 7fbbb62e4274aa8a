"""Polls delays from Goldpinger.

/check_all makes every pod check every other, so one response covers the whole cluster. Its data count from the moment
of the request, on our own monotonic clock. Newer Goldpingers ping by themselves and repeat their last result: a
reporter whose newest ping stays the same for as long as data may be old has stopped pinging and no longer counts.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Set

import aiohttp
from msgspec import Struct
from yarl import URL

from leadsman.decision.inputs import SourceRow
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
    """How Goldpinger is polled.

    interval_seconds: from one response to the next request, ± 10 %.
    stale_intervals: data count for so many intervals, so that one failed poll loses nothing.
    deadline_seconds: of one poll; Goldpinger itself gives up after 5 s by default.
    max_response_bytes: 32 MiB are some 400 pods, as each of n reports n - 1 others.
    """

    interval_seconds: float = 30.0
    stale_intervals: float = 3.0
    deadline_seconds: float = 10.0
    max_response_bytes: int = 32 << 20

    @property
    def stale_seconds(self) -> float:
        """How long data count."""
        return self.interval_seconds * self.stale_intervals


class GoldpingerView(Struct, frozen=True, eq=False):
    """The reports of one poll, as a DelayView of leadsman.decision.inputs."""

    reports: Mapping[str, GoldpingerReport]
    nodes: Set[str]
    read_at: float
    fresh_until: float
    source: str = SOURCE

    def row(self, reference: str) -> SourceRow:
        """The delays between `reference` and all other nodes."""
        own = self.reports.get(reference)
        backward = {
            node: rtt for node, report in self.reports.items() if (rtt := report.rtt_ms.get(reference)) is not None
        }
        no_reply = {node for node, report in self.reports.items() if reference in report.no_reply}
        if own is None:
            return SourceRow(backward=backward, no_reply=no_reply)
        return SourceRow(own.rtt_ms, backward, no_reply | own.no_reply)

    def measurements(self) -> Iterator[tuple[str, str, float]]:
        """Source, target and round trip in ms, in the middle of what was rounded away."""
        for source, report in self.reports.items():
            for target, rtt_ms in report.rtt_ms.items():
                yield source, target, rtt_ms - ROUNDING_MS / 2


class GoldpingerPoller:
    """Polls Goldpinger. `run` it as one task.

    names: host IP, pod IP or pod name → node, called at each poll.
    current: the newest data, which stay and age when polls fail; None before the first response.
    problem: why the last poll failed.
    """

    source = SOURCE

    def __init__(
        self,
        url: str,
        names: Callable[[], Mapping[str, str]],
        settings: GoldpingerSettings = GoldpingerSettings(),  # noqa: B008 -- frozen
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
        self._names, self._settings, self._clock, self._rng = names, settings, clock, rng or random.Random()
        self._last_pings: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        """Polls until cancelled. The first poll is at once; polls do not overlap."""
        timeout = aiohttp.ClientTimeout(total=self._settings.deadline_seconds)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self.poll(session)
                await asyncio.sleep(self._settings.interval_seconds * self._rng.uniform(0.9, 1.1))

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """Polls once. Never raises what Goldpinger or the network may cause: `problem` says what was wrong."""
        requested_at, names = self._clock(), self._names()
        try:
            body = await self._body(session)
            response = await run_in_daemon_thread(lambda: parse_check_all(body, names), "leadsman-goldpinger")
        except (aiohttp.ClientError, TimeoutError, OSError, BadCheckAll) as error:
            self.problem.report(f"{self._url}: {str(error) or type(error).__name__}", kind=type(error).__name__)
        else:
            self._accept(response, requested_at)

    async def _body(self, session: aiohttp.ClientSession) -> bytes:
        async with session.get(self._url) as response:
            if response.status != 200:
                raise BadCheckAll(f"GET /check_all returned status {response.status}; check the URL in --goldpinger")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > self._settings.max_response_bytes:
                    limit = self._settings.max_response_bytes
                    raise BadCheckAll(f"the response of GET /check_all is larger than the limit of {limit} bytes")
            return bytes(body)

    def _accept(self, response: CheckAllResponse, requested_at: float) -> None:
        if response.unreadable:
            self.problem.report("; ".join(f"{pod}: {why}" for pod, why in list(response.unreadable.items())[:3]))
        else:
            self.problem.clear()
        reports = {
            node: report for node, report in response.reports.items() if self._is_pinging(node, report, requested_at)
        }
        self._last_pings = {node: self._last_pings[node] for node in response.reports}
        nodes = reports.keys() | {node for report in reports.values() for node in report.rtt_ms}
        self.current = GoldpingerView(reports, nodes, requested_at, requested_at + self._settings.stale_seconds)

    def _is_pinging(self, node: str, report: GoldpingerReport, now: float) -> bool:
        """Whether the reporter still pings."""
        last_pinged, since = self._last_pings.get(node, ("", now))
        if report.last_pinged != last_pinged or not last_pinged:
            since = now
        self._last_pings[node] = (report.last_pinged, since)
        return now - since < self._settings.stale_seconds
