"""Nodes."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.api.contract.common import NamedValue


class NodeRow(Struct, frozen=True):
    """One node.

    group: id of its delay group.
    address: of its agent; null: unknown.
    status: "fresh", "provisional", "stale" or "unknown" (no heartbeat).
    age_seconds: since its last report.
    median_rtt_ms, jitter_ms: medians over the peers that it measured.
    shift_ms, shift_since: by how much it moved away from all others within the hour of history, and when;
    0: it stayed; null: too few pairs were measured to tell.
    x, y: its place on the map, in ms.
    bounded_pods: pods with delay bounds that the journal knows to refer to it.
    """

    name: str
    group: str
    zone: str
    rack: str
    address: str | None
    status: str
    age_seconds: float | None
    peers_measured: int
    peers_lost: int
    median_rtt_ms: float | None
    jitter_ms: float | None
    shift_ms: float | None
    shift_since: str | None
    x: float | None
    y: float | None
    problems: Sequence[str]
    bounded_pods: int


class ReportedNode(Struct, frozen=True):
    """What a node's agent last reported. peers_p50_ms: peer → median round trip; null: probed, and none was timed."""

    status: str
    age_seconds: float | None
    address: str | None
    zone: str
    peers_p50_ms: Mapping[str, float | None]
    hardware: Mapping[str, float]


class ReportedState(Struct, frozen=True):
    """All that agents last reported, at one revision of etcd."""

    cluster: str
    revision: int
    nodes: Mapping[str, ReportedNode]


class PeerRow(Struct, frozen=True):
    """What the node measured to one peer. lost: probes without a reply in the window."""

    name: str
    rtt_ms: float | None
    p95_ms: float | None
    jitter_ms: float | None
    lost: int
    age_seconds: float | None


class MedianAt(Struct, frozen=True):
    """The node's median round trip at one moment."""

    at: str
    median_rtt_ms: float | None


class NodeDetail(NodeRow, frozen=True):
    """A node with all that is known of it. implausible: peers to which it reports a delay that cannot be true."""

    hardware: Sequence[NamedValue]
    peers: Sequence[PeerRow]
    implausible: Sequence[str]
    history: Sequence[MedianAt]
