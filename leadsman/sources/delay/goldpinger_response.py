"""Goldpinger's answer to GET /check_all → delays between nodes.

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

ROUNDING_MS = 1.0

_UNSET_TIME_PREFIX = "0001-"
"""How Go writes a time that was not set."""


class BadCheckAll(ValueError):
    """The body is no answer to /check_all. Says what is wrong with it."""


class GoldpingerReport(NamedTuple):
    """What one node measured. ms: node → upper end of the round trip. no_reply: nodes that did not answer.

    stamp: when Goldpinger pinged last, by its own clock; "" in versions that ping when asked.
    """

    rtt_ms: Mapping[str, float]
    no_reply: Set[str]
    last_pinged: str


class CheckAllResponse(NamedTuple):
    """reports: by node. unreadable: pods whose part could not be read, and why."""

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
    """names: host IP, pod IP or pod name → node. What none of them names goes by its host's IP. BadCheckAll."""
    try:
        answer = msgspec.json.decode(body, type=_CheckAllBody)
    except msgspec.DecodeError as error:
        raise BadCheckAll(f"no answer to /check_all: {error}") from error
    if answer.responses is None:
        raise BadCheckAll("no answer to /check_all: `responses` is missing")
    node_of, unreadable = _NodeResolver(names, answer.hosts or ()), dict[str, str]()
    reports = defaultdict[str, list[GoldpingerReport]](list)
    for pod, raw in answer.responses.items():
        try:
            reporter = _REPORTER.decode(raw)
        except msgspec.DecodeError as error:
            unreadable[pod] = str(error)
            continue
        if reporter.ok and reporter.response and reporter.response.peers is not None:
            node = node_of(pod, reporter)
            reports[node].append(_report(node, reporter.response.peers, node_of))
    return CheckAllResponse({node: _merge_reports(each) for node, each in reports.items()}, unreadable)


class _NodeResolver:
    """Whose pod it is."""

    def __init__(self, names: Mapping[str, str], hosts: "list[_Host | None] | tuple[()]") -> None:
        self._names, self._hosts = names, dict[str, str]()
        for host in hosts:
            if host and host.host_ip:
                self._hosts |= {each: host.host_ip for each in (host.pod, host.pod_ip) if each}

    def __call__(self, pod: str, seen: _Peer | _Reporter) -> str:
        known = [each for each in self._known(pod, seen) if each]
        return next((self._names[each] for each in known if each in self._names), known[0])

    def _known(self, pod: str, seen: _Peer | _Reporter) -> Iterator[str | None]:
        """What it goes by, the host's address first."""
        yield seen.host_ip or self._hosts.get(pod) or self._hosts.get(seen.pod_ip or "")
        yield pod
        yield seen.pod_ip


def _report(node: str, peers: Mapping[str, _Peer | None], node_of: _NodeResolver) -> GoldpingerReport:
    ms, no_reply, stamp = dict[str, float](), set[str](), ""
    for pod, peer in peers.items():
        if peer is None or (other := node_of(pod, peer)) == node:
            continue
        stamp = max(stamp, peer.pinged_at or "")
        rounded_ms = peer.ms or 0.0
        if not peer.ok:
            no_reply.add(other)
        elif 0 <= rounded_ms <= MAX_RTT_MS - ROUNDING_MS:
            ms[other] = max(ms.get(other, 0.0), rounded_ms + ROUNDING_MS)
    return GoldpingerReport(ms, no_reply, "" if stamp.startswith(_UNSET_TIME_PREFIX) else stamp)


def _merge_reports(reports: list[GoldpingerReport]) -> GoldpingerReport:
    """Of the pods of one node, of which a roll-out has two: the worst counts."""
    ms: dict[str, float] = {}
    for report in reports:
        ms |= {node: max(rtt_ms, ms.get(node, 0.0)) for node, rtt_ms in report.rtt_ms.items()}
    no_reply = frozenset[str]().union(*(report.no_reply for report in reports)) - ms.keys()
    return GoldpingerReport(ms, no_reply, max(report.last_pinged for report in reports))
