"""Parses Goldpinger's response to GET /check_all into delays between nodes.

    {"hosts": [{"podName", "podIP", "hostIP"}, …],
     "responses": {<reporter>: {"OK", "HostIP", "PodIP", "response": {"podResults": {<peer>:
         {"OK", "HostIP", "PodIP", "PingTime", "response-time-ms"}}}}}}

After bloomberg/goldpinger's swagger.yml. Reporter and peer are pod names, in old versions pod IPs. The response time is
in whole milliseconds, rounded down, and left out when it is 0: a reading of 3 is anything from 3 up to 4 ms and counts
as 4, because a bound must hold for what was rounded away. A pod that is missing, or cannot be read, says nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from leadsman.network.measured_pairs import MAX_RTT_MS
from leadsman.runtime.decode_errors import UNREADABLE, explain

ROUNDING_MS = 1.0

_UNSET_TIME_PREFIX = "0001-"
"""How Go writes a time that was not set."""


class BadCheckAll(ValueError):
    """The body is not a response to /check_all. Says what is wrong with it."""


class GoldpingerReport(NamedTuple):
    """What one node measured.

    rtt_ms: node → upper end of the round trip.
    no_reply: nodes that did not answer.
    last_pinged: when Goldpinger pinged last, by its own clock; "" in versions that ping at each request.
    """

    rtt_ms: Mapping[str, float]
    no_reply: Set[str]
    last_pinged: str


class CheckAllResponse(NamedTuple):
    """A parsed response.

    reports: node → what it measured.
    unreadable: pod → why its part could not be read.
    """

    reports: Mapping[str, GoldpingerReport]
    unreadable: Mapping[str, str]


class _Peer(Struct):
    ok: bool | None = field(name="OK", default=None)
    host_ip: str | None = field(name="HostIP", default=None)
    pod_ip: str | None = field(name="PodIP", default=None)
    pinged_at: str | None = field(name="PingTime", default=None)
    ms: float | None = field(name="response-time-ms", default=None)


class _Response(Struct):
    peers: dict[str, _Peer | None] | None = field(name="podResults", default=None)


class _Reporter(Struct):
    ok: bool | None = field(name="OK", default=None)
    host_ip: str | None = field(name="HostIP", default=None)
    pod_ip: str | None = field(name="PodIP", default=None)
    response: _Response | None = None


class _Host(Struct):
    pod: str | None = field(name="podName", default=None)
    pod_ip: str | None = field(name="podIP", default=None)
    host_ip: str | None = field(name="hostIP", default=None)


class _CheckAllBody(Struct):
    responses: dict[str, Raw] | None = None
    hosts: list[_Host | None] | None = None


_REPORTER = msgspec.json.Decoder(_Reporter)


def parse_check_all(body: bytes, names: Mapping[str, str]) -> CheckAllResponse:
    """Parses a body. BadCheckAll.

    names: host IP, pod IP or pod name → node; a pod without a node here goes by its host's IP.
    """
    try:
        response = msgspec.json.decode(body, type=_CheckAllBody)
    except UNREADABLE as error:
        raise BadCheckAll(
            f"not a response to GET /check_all ({explain(error)}); check the URL in --goldpinger"
        ) from error
    if response.responses is None:
        raise BadCheckAll("not a response to GET /check_all (no `responses`); check the URL in --goldpinger")
    node_of, unreadable = _NodeResolver(names, response.hosts or ()), dict[str, str]()
    reports = defaultdict[str, list[GoldpingerReport]](list)
    for pod, raw in response.responses.items():
        try:
            reporter = _REPORTER.decode(raw)
        except UNREADABLE as error:
            unreadable[pod] = str(explain(error))
            continue
        if reporter.ok and reporter.response and reporter.response.peers is not None:
            node = node_of(pod, reporter)
            reports[node].append(_report(node, reporter.response.peers, node_of))
    return CheckAllResponse({node: _merge_reports(each) for node, each in reports.items()}, unreadable)


class _NodeResolver:
    """Finds the node of a pod."""

    def __init__(self, names: Mapping[str, str], hosts: "list[_Host | None] | tuple[()]") -> None:
        self._names, self._hosts = names, dict[str, str]()
        for host in hosts:
            if host and host.host_ip:
                self._hosts |= {each: host.host_ip for each in (host.pod, host.pod_ip) if each}

    def __call__(self, pod: str, fields: _Peer | _Reporter) -> str:
        identifiers = [each for each in self._identifiers(pod, fields) if each] or [pod]
        return next((self._names[each] for each in identifiers if each in self._names), identifiers[0])

    def _identifiers(self, pod: str, fields: _Peer | _Reporter) -> Iterator[str | None]:
        """What the pod goes by, the host's address first."""
        yield fields.host_ip or self._hosts.get(pod) or self._hosts.get(fields.pod_ip or "")
        yield pod
        yield fields.pod_ip


def _report(node: str, peers: Mapping[str, _Peer | None], node_of: _NodeResolver) -> GoldpingerReport:
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
    """The report of a node with several pods, as during a roll-out: the worst value counts."""
    rtt_ms: dict[str, float] = {}
    for report in reports:
        rtt_ms |= {node: max(ms, rtt_ms.get(node, 0.0)) for node, ms in report.rtt_ms.items()}
    no_reply = frozenset[str]().union(*(report.no_reply for report in reports)) - rtt_ms.keys()
    return GoldpingerReport(rtt_ms, no_reply, max(report.last_pinged for report in reports))
