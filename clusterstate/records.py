"""What is known about a node: one frozen Struct a record, bounds declared on the fields.

Four records a node, each under its own key (see `keys`): Identity and Heartbeat say who writes and that it
is alive, Latency and Hardware what it measured. RTTs are in milliseconds, as on the scheduler's wire and in
pod labels; every other unit stands in the field's or the metric's name. JSON has no NaN and no infinity,
so neither can be written or read.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

Rtt = Annotated[float, Meta(ge=0, le=60_000)]
"""Milliseconds. Above a minute is no round trip of a packet but a fault of the measurement."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Short = Annotated[str, Meta(max_length=253)]
MetricName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}\Z")]


class Method(StrEnum):
    """How a round trip was timed."""

    ICMP = "icmp"
    TCP = "tcp"
    """A TCP handshake, because ICMP is blocked. Whoever answers the port answers it: a proxy may stand in between."""


class Record(Struct, frozen=True, tag_field="v", tag=1, omit_defaults=True):
    """The base of all records. `v` is the schema version: a reader refuses one that it does not know."""


class Identity(Record, frozen=True):
    """Who writes under this node's prefix. Constant from the claim until the lease ends.

    owner: the agent's pod UID. epoch: the store's revision before the claim, so that it grows with each start.
    """

    owner: Annotated[str, Meta(min_length=1, max_length=253)]
    epoch: Count
    address: Annotated[str, Meta(min_length=1, max_length=253)]
    zone: Short = ""
    rack: Short = ""


class Heartbeat(Record, frozen=True):
    """Vouches that all other records of the node hold now. Written last in each report, after a completed round."""

    epoch: Count
    seq: Count
    push_interval_seconds: Annotated[float, Meta(gt=0, le=120)]


class PeerLatency(Struct, frozen=True, omit_defaults=True):
    """One window of probes to one peer. A lost probe counts in `sent` only; it is never a latency.

    jitter_ms: mean absolute difference of consecutive RTTs. None: nothing was received in the window.
    """

    sent: Count
    received: Count
    p50_ms: Rtt | None = None
    p95_ms: Rtt | None = None
    min_ms: Rtt | None = None
    jitter_ms: Rtt | None = None
    last_reply_age_seconds: Annotated[float, Meta(ge=0)] | None = None
    method: Method = Method.ICMP

    def __post_init__(self) -> None:
        if self.received > self.sent:
            raise ValueError(f"received {self.received} of {self.sent} probes sent")
        if not (self.received > 0) is (self.p50_ms is not None) is (self.p95_ms is not None):
            raise ValueError(f"p50_ms {self.p50_ms}, p95_ms {self.p95_ms} with {self.received} replies")
        if not (self.min_ms or 0.0) <= (self.p50_ms or 0.0) <= (self.p95_ms or 0.0):
            raise ValueError(f"not min_ms {self.min_ms} <= p50_ms {self.p50_ms} <= p95_ms {self.p95_ms}")

    @property
    def loss_ratio(self) -> float | None:
        """Lost probes of those sent, 0..1; None when none was sent."""
        return 1 - self.received / self.sent if self.sent else None


class Latency(Record, frozen=True):
    """Peer's node name → its window."""

    peers: dict[Short, PeerLatency]


class Hardware(Record, frozen=True):
    """Metric → value. Names follow node_exporter's, without the prefix; `measures` holds the well-known ones."""

    values: dict[MetricName, float]


AnyRecord = Identity | Heartbeat | Latency | Hardware
