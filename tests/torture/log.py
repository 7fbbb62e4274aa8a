"""What happened in a run, as plain data: one struct an observation, all on this machine's monotonic clock.

The checker reads nothing else. `write` keeps a log as JSON, a line each.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct


class Observation(Struct, frozen=True, tag=True):
    """at: monotonic seconds."""

    at: float


class Pushed(Observation, frozen=True):
    """A change under the state's prefix, from an etcd watch.

    era: number of the store: a wiped one begins another. value: decoded JSON, the text where that fails; None: deleted.
    """

    era: int
    revision: int
    node: str
    kind: str
    value: Any


class ViewedNode(Struct, frozen=True):
    """One node of an extender's state."""

    status: str
    age_seconds: float | None
    peers_p50_ms: Mapping[str, float | None]
    hardware: Mapping[str, float]


class Viewed(Observation, frozen=True):
    """The state that an extender has; `at`: after it was read."""

    extender: str
    revision: int
    nodes: Mapping[str, ViewedNode]


class Answered(Observation, frozen=True):
    """One scheduling of a pod: filter, then prioritize with the nodes that were kept. `at`: when it began.

    seconds: of the slower call. status: of the last call; 0: no answer.
    expected: the nodes that may pass, by the network's own delays; None: all.
    scores: (host, score) as answered. overran: there was no time to decide, so the bounded pod was refused.
    """

    extender: str
    pod: str
    candidates: tuple[str, ...]
    expected: frozenset[str] | None
    status: int
    seconds: float
    kept: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    scores: tuple[tuple[str, Any], ...] = ()
    problem: str = ""
    overran: bool = False

    @property
    def until(self) -> float:
        """When it ended, at the latest: neither of the two calls took longer than `seconds`."""
        return self.at + 2 * self.seconds


class UsedDelay(Struct, frozen=True):
    """A measured round trip that decided about a node. reporter: the node whose agent measured it.

    doubted: the other end does not report, so it counts as no less than what other nodes' reports say.
    """

    node: str
    reporter: str
    peer: str
    rtt_ms: float
    age_seconds: float | None
    doubted: bool = False


class Explained(Observation, frozen=True):
    """What one decision was made on, from its explanation; `at`: when the decision was made, at the latest.

    delays: measured by agents. scored: node → its pressure counted.
    """

    extender: str
    pod: str
    delays: tuple[UsedDelay, ...]
    scored: Mapping[str, str]
    ages: Mapping[str, float | None]


class NodeWritten(Observation, frozen=True):
    """A patch of a node that the API server carried out. labels: the node's, afterwards."""

    writer: str
    node: str
    labels: Mapping[str, str]


class LeaseWritten(Observation, frozen=True):
    writer: str
    holder: str


class Scraped(Observation, frozen=True):
    """A read of /metrics. status: 0: no answer."""

    process: str
    seconds: float
    status: int


class Attacked(Observation, frozen=True):
    """One hostile request. status: 0: the connection ended without an answer, -1: nothing happened in time."""

    kind: str
    seconds: float
    status: int


class Down(Observation, frozen=True):
    """A process that the run itself killed, stopped or froze, until `until`: when it ran and was ready again."""

    process: str
    until: float


class Stalled(Observation, frozen=True):
    """The run itself got no CPU until then: what it timed meanwhile says nothing about others."""

    until: float


class Ended(Observation, frozen=True):
    """A process that ended by itself."""

    process: str
    code: int


class Crashed(Observation, frozen=True):
    """The container of the crashing pod on this node was restarted; `total` times by now."""

    node: str
    total: int


class CardGiven(Observation, frozen=True):
    """A pod that asked the extender for a part of a card was bound to the node, which has so many of them now."""

    extender: str
    node: str
    pods: int


class PlanHandedOver(Observation, frozen=True):
    """A plan of moves. moves: pod's UID → the node that it is to go to."""

    plan: str
    moves: Mapping[str, str]


class RoomHeld(Observation, frozen=True):
    """The pod that holds room for a move was bound. pod_uid: of the pod that is to move."""

    pod_uid: str
    node: str


class Evicted(Observation, frozen=True):
    """An eviction that the API server carried out."""

    writer: str
    pod_uid: str


class Landed(Observation, frozen=True):
    """The pod that an owner made for an evicted one was bound where this extender let it. left: node of the old pod."""

    extender: str
    node: str
    left: str
    evicted_at: float


class Recovery(Struct, frozen=True):
    """took_seconds: None: it did not happen while it was waited for. limit_seconds: None: it must happen, whenever."""

    what: str
    took_seconds: float | None
    limit_seconds: float | None


class Injected(Observation, frozen=True):
    """A row: from injection to the end of its recovery.

    quiet_since: before it, all was well from then on. failed: why the row could not be carried out; "" when it was.
    """

    row: str
    quiet_since: float
    healed_at: float
    until: float
    recoveries: tuple[Recovery, ...]
    failed: str = ""


class MemoryPeak(Observation, frozen=True):
    """Of a process during a row, against the limit in the manifests."""

    row: str
    process: str
    peak_bytes: int
    limit_bytes: int


def write(path: Path, entries: Iterable[Observation]) -> None:
    path.write_bytes(b"\n".join(map(msgspec.json.encode, entries)))
