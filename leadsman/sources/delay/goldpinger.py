"""Polls delays from Goldpinger.

/check_all makes every pod check every other, so one response covers the whole cluster. Its data count from the moment
of the request, on our own monotonic clock. Newer Goldpingers ping by themselves and repeat their last result: a
reporter whose newest ping stays the same for as long as data may be old has stopped pinging and no longer counts.
"""

import asyncio
import logging
import random
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple

import aiohttp
import msgspec
from msgspec import Raw, Struct, field
from yarl import URL

from leadsman.decision.inputs import SourceRow
from leadsman.network.measured_pairs import MAX_RTT_MS
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.runtime.problem_log import ProblemLog

# Parses Goldpinger's response to GET /check_all into delays between nodes.
#
#     {"hosts": [{"podName", "hostIP"}, …],
#      "responses": {<reporter>: {"OK", "HostIP", "response": {"podResults": {<peer>:
#          {"OK", "HostIP", "PingTime", "response-time-ms"}}}}}}
#
# After bloomberg/goldpinger's swagger.yml. Reporter and peer are pod names. The response time is in whole milliseconds,
# rounded down, and left out when it is 0: a reading of 3 is anything from 3 up to 4 ms and counts as 4, because a bound
# must hold for what was rounded away. A pod that is missing says nothing, and neither does a value that cannot be read
# of its one pair.

ROUNDING_MS = 1.0

_UNSET_TIME_PREFIX = "0001-"
"""Says how Go writes a time that was not set."""


class BadCheckAll(ValueError):
    """The body is not a response to /check_all; the text says what is wrong with it."""


class GoldpingerReport(NamedTuple):
    """Says what one node measured to others.

    rtt_ms: node → upper end of the round trip.
    no_reply: nodes that did not answer.
    last_pinged: when Goldpinger pinged last, by its own clock; "" in versions that ping at each request.
    """

    rtt_ms: Mapping[str, float]
    no_reply: Set[str]
    last_pinged: str


class _Peer(Struct):
    ok: bool | None = field(name="OK", default=None)
    host_ip: str | None = field(name="HostIP", default=None)
    pinged_at: str | None = field(name="PingTime", default=None)
    ms: float | None = field(name="response-time-ms", default=None)


class _Response(Struct):
    peers: dict[str, Raw] | None = field(name="podResults", default=None)


class _Reporter(Struct):
    ok: bool | None = field(name="OK", default=None)
    host_ip: str | None = field(name="HostIP", default=None)
    response: _Response | None = None


class _Host(Struct):
    pod: str | None = field(name="podName", default=None)
    host_ip: str | None = field(name="hostIP", default=None)


class _CheckAllBody(Struct):
    responses: dict[str, Raw] | None = None
    hosts: list[_Host | None] | None = None


_REPORTER, _PEER = msgspec.json.Decoder(_Reporter), msgspec.json.Decoder(_Peer | None)


def parse_check_all(body: bytes, names: Mapping[str, str]) -> tuple[dict[str, GoldpingerReport], dict[str, str]]:
    """Returns what each node measured, and why a reporter or `reporter to peer` could not be read. Raises BadCheckAll.

    names: host IP → node; a pod without a node here goes by its host's IP, or by its own name.
    """
    try:
        response = msgspec.json.decode(body, type=_CheckAllBody)
    except UNREADABLE as error:
        raise BadCheckAll(
            f"not a response to GET /check_all ({explain(error)}); check the URL in --goldpinger"
        ) from error
    if response.responses is None:
        raise BadCheckAll("not a response to GET /check_all (no `responses`); check the URL in --goldpinger")
    hosts = {host.pod: host.host_ip for host in response.hosts or () if host and host.pod}
    unreadable = dict[str, str]()

    def node_of(pod: str, fields: _Peer | _Reporter) -> str:
        address = fields.host_ip or hosts.get(pod) or pod
        return names.get(address, address)

    reports = defaultdict[str, list[GoldpingerReport]](list)
    for pod, raw in response.responses.items():
        try:
            reporter = _REPORTER.decode(raw)
        except UNREADABLE as error:
            unreadable[pod] = str(explain(error))
            continue
        if reporter.ok and reporter.response and reporter.response.peers is not None:
            node = node_of(pod, reporter)
            reports[node].append(_report(node, _readable(pod, reporter.response.peers, unreadable), node_of))
    return {node: _merge_reports(each) for node, each in reports.items()}, unreadable


def _readable(pod: str, peers: Mapping[str, Raw], unreadable: dict[str, str]) -> dict[str, _Peer | None]:
    found = dict[str, _Peer | None]()
    for peer, value in peers.items():
        try:
            found[peer] = _PEER.decode(value)
        except UNREADABLE as error:
            unreadable[f"{pod} to {peer}"] = str(explain(error))
    return found


def _report(node: str, peers: Mapping[str, _Peer | None], node_of: Callable[[str, _Peer], str]) -> GoldpingerReport:
    rtt_ms, no_reply, last_pinged = dict[str, float](), set[str](), ""
    for pod, peer in peers.items():
        if peer is None or (other := node_of(pod, peer)) == node:
            continue
        last_pinged = max(last_pinged, peer.pinged_at or "")
        rounded_ms = peer.ms or 0.0
        if not peer.ok:
            no_reply.add(other)
        elif 0 <= rounded_ms <= MAX_RTT_MS - ROUNDING_MS:
            rtt_ms[other] = max(rtt_ms.get(other, 0.0), rounded_ms + ROUNDING_MS)
    return GoldpingerReport(rtt_ms, no_reply, "" if last_pinged.startswith(_UNSET_TIME_PREFIX) else last_pinged)


def _merge_reports(reports: list[GoldpingerReport]) -> GoldpingerReport:
    """Returns the report of a node with several pods, as during a roll-out: the worst value counts."""
    rtt_ms: dict[str, float] = {}
    for report in reports:
        rtt_ms |= {node: max(ms, rtt_ms.get(node, 0.0)) for node, ms in report.rtt_ms.items()}
    no_reply = frozenset[str]().union(*(report.no_reply for report in reports)) - rtt_ms.keys()
    return GoldpingerReport(rtt_ms, no_reply, max(report.last_pinged for report in reports))


log = logging.getLogger(__name__)

SOURCE = "goldpinger"


STALE_INTERVALS = 3.0
"""Data count for so many intervals, so that one failed poll loses nothing."""

DEADLINE_SECONDS = 10.0
"""Time for one poll; Goldpinger itself gives up after 5 s by default."""

MAX_RESPONSE_BYTES = 32 << 20
"""Some 400 pods, as each of n reports n - 1 others."""


class GoldpingerView(Struct, frozen=True, eq=False):
    """The reports of one poll, as a DelayView of leadsman.decision.inputs."""

    reports: Mapping[str, GoldpingerReport]
    nodes: Set[str]
    read_at: float
    fresh_until: float
    source: str = SOURCE

    def row(self, reference: str) -> SourceRow:
        """Returns the delays between `reference` and all other nodes."""
        own = self.reports.get(reference)
        backward = {
            node: rtt for node, report in self.reports.items() if (rtt := report.rtt_ms.get(reference)) is not None
        }
        no_reply = {node for node, report in self.reports.items() if reference in report.no_reply}
        if own is None:
            return SourceRow(backward=backward, no_reply=no_reply)
        return SourceRow(own.rtt_ms, backward, no_reply | own.no_reply)

    def measurements(self) -> Iterator[tuple[str, str, float]]:
        """Yields source, target and round trip in ms, in the middle of what was rounded away."""
        for source, report in self.reports.items():
            for target, rtt_ms in report.rtt_ms.items():
                yield source, target, rtt_ms - ROUNDING_MS / 2


class GoldpingerPoller:
    """Asks Goldpinger for all delays again and again. `run` it as one task.

    names: host IP → node, called at each poll.
    current: the newest data, which stay and age when polls fail; None before the first response.
    problem: why the last poll failed.
    """

    source = SOURCE

    def __init__(
        self,
        url: str,
        names: Callable[[], Mapping[str, str]],
        interval_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current: GoldpingerView | None = None
        self.problem = ProblemLog(
            log,
            "delays of Goldpinger are missing; those already read are used until they are stale",
            "Goldpinger reports all delays again",
        )
        self._url = URL(url.rstrip("/").removesuffix("/check_all")) / "check_all"
        self._names, self._clock, self._interval_seconds = names, clock, interval_seconds
        self._stale_seconds = STALE_INTERVALS * interval_seconds
        self._last_pings: dict[str, tuple[str, float]] = {}

    async def run(self) -> None:
        """Polls at once and then until cancelled; polls do not overlap."""
        timeout = aiohttp.ClientTimeout(total=DEADLINE_SECONDS)
        # aiohttp's own context has no CAs here: leadsman.runtime.lean_aiohttp.
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context())
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            while True:
                await self.poll(session)
                await asyncio.sleep(self._interval_seconds * random.uniform(0.9, 1.1))

    async def poll(self, session: aiohttp.ClientSession) -> None:
        """Asks Goldpinger once. What Goldpinger or the network does wrong is told by `problem`, never raised."""
        requested_at, names = self._clock(), self._names()
        try:
            body = await self._body(session)
            read = await run_in_daemon_thread(lambda: parse_check_all(body, names), "leadsman-goldpinger")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self.problem.report(f"{self._url}: {str(error) or type(error).__name__}", kind=type(error).__name__)
        else:
            self._accept(*read, requested_at)

    async def _body(self, session: aiohttp.ClientSession) -> bytes:
        async with session.get(self._url) as response:
            if response.status != 200:
                raise BadCheckAll(f"GET /check_all returned status {response.status}; check the URL in --goldpinger")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_RESPONSE_BYTES:
                    raise BadCheckAll(f"the response of GET /check_all has more than {MAX_RESPONSE_BYTES:,} bytes")
            return bytes(body)

    def _accept(
        self, responses: Mapping[str, GoldpingerReport], unreadable: Mapping[str, str], requested_at: float
    ) -> None:
        if unreadable:
            self.problem.report("; ".join(f"{pod}: {why}" for pod, why in list(unreadable.items())[:3]))
        else:
            self.problem.clear()
        reports = {node: report for node, report in responses.items() if self._is_pinging(node, report, requested_at)}
        self._last_pings = {node: self._last_pings[node] for node in responses}
        nodes = reports.keys() | {node for report in reports.values() for node in report.rtt_ms}
        self.current = GoldpingerView(reports, nodes, requested_at, requested_at + self._stale_seconds)

    def _is_pinging(self, node: str, report: GoldpingerReport, now: float) -> bool:
        """Tells whether the reporter still pings."""
        last_pinged, since = self._last_pings.get(node, ("", now))
        if report.last_pinged != last_pinged or not last_pinged:
            since = now
        self._last_pings[node] = (report.last_pinged, since)
        return now - since < self._stale_seconds
