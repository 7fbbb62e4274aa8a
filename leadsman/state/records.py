"""What is known about a node: one frozen Struct a record, bounds declared on the fields.

Each stands under its own key (see `keys`): Identity and Heartbeat say who writes and that it is alive, Latency and
Hardware what it measured, RingEntry how peers find and reach the node, ProbeRequest what it is asked to measure.
RTTs are in milliseconds, as on the scheduler's wire and in pod labels; every other unit stands in the field's or the
metric's name. JSON has no NaN and no infinity, so neither can be written or read.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

RttMs = Annotated[float, Meta(ge=0, le=60_000)]
"""Milliseconds. Above a minute is no round trip of a packet but a fault of the measurement."""

OffsetMs = Annotated[float, Meta(ge=-60_000, le=60_000)]
"""Milliseconds, either way."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ShortText = Annotated[str, Meta(max_length=253)]
MetricName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}\Z")]


class ProbeMethod(StrEnum):
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
    zone: ShortText = ""
    rack: ShortText = ""


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
    p50_ms: RttMs | None = None
    p95_ms: RttMs | None = None
    min_ms: RttMs | None = None
    jitter_ms: RttMs | None = None
    last_reply_age_seconds: Annotated[float, Meta(ge=0)] | None = None
    method: ProbeMethod = ProbeMethod.ICMP

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

    peers: dict[ShortText, PeerLatency]


class Hardware(Record, frozen=True):
    """Metric → value. Names follow node_exporter's, without the prefix; `measures` holds the well-known ones."""

    values: dict[MetricName, float]


class RingCoordinate(Struct, frozen=True, omit_defaults=True):
    """Where a node stands in the network: leadsman.network.vivaldi.Coordinate, bounded. All in milliseconds but
    `error`."""

    point: Annotated[tuple[OffsetMs, ...], Meta(min_length=2, max_length=8)]
    height: RttMs
    adjustment: OffsetMs = 0.0
    error: Annotated[float, Meta(ge=0, le=1.5)] = 1.5


class RingEntry(Record, frozen=True):
    """How peers reach a node, and all that they need to choose whom to probe. Read by O(k) peers, watched by nobody.

    near: the nodes that it knows to be nearest, for peers in search of their own. reach_ms: estimated RTT within which
    a node counts as near to this one. Coordinates are None, and reach_ms too, as long as nothing was measured.
    """

    address: Annotated[str, Meta(min_length=1, max_length=253)]
    zone: ShortText = ""
    rack: ShortText = ""
    coordinate: RingCoordinate | None = None
    reach_ms: RttMs | None = None
    near: Annotated[tuple[ShortText, ...], Meta(max_length=8)] = ()


class ProbeRequest(Record, frozen=True):
    """Asks the agent under whose prefix it stands to measure this pair now. target: node name."""

    target: Annotated[str, Meta(min_length=1, max_length=253)]


class Quality(Struct, frozen=True):
    """What was observed of pods that ran: the mean of ln(cost), lower being better, of `samples` observations.

    Samples fade with the reward's half-life. A quantity of which more is better has 1 / quantity as its cost.
    """

    log_cost: Annotated[float, Meta(ge=-1_000, le=1_000)]
    samples: Annotated[float, Meta(gt=0, le=1_000_000)]


class Reward(Record, frozen=True):
    """How the node treated one type of pod, as of `at_seconds`. Kept in the store when the agent leaves.

    healthy, failed: trials, fading with the half-life. recent: of the healthy ones, those that began after the last
    incident, and some of those before. kuberl: kubeRL's reward, which does not fade. incidents: cause
    (leadsman.rewards.incident_causes) → how many since the record began. qualities: what was observed → Quality.
    at_seconds, last_incident_seconds: the writer's own Unix time, compared with nothing but its own.
    """

    at_seconds: Annotated[float, Meta(ge=0, le=1e11)]
    half_life_seconds: Annotated[float, Meta(gt=0, le=31_536_000)] = 3_600.0
    healthy: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    recent: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    failed: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    kuberl: Annotated[float, Meta(ge=0, le=1)] = 1.0
    incidents: dict[MetricName, Count] = {}
    last_cause: ShortText = ""
    last_incident_seconds: Annotated[float, Meta(ge=0, le=1e11)] | None = None
    qualities: Annotated[dict[MetricName, Quality], Meta(max_length=8)] = {}


class BindFailure(Record, frozen=True):
    """The extender could not bind a pod to the node under whose prefix it stands; that node's agent counts it.

    type: of the pod. cause: leadsman.rewards.incident_causes.
    """

    type: Annotated[str, Meta(min_length=1, max_length=253)]
    cause: Annotated[str, Meta(min_length=1, max_length=64)]


class CountedTotalsShard(Record, frozen=True):
    """What the node's agent has counted of the pods of one shard, so that the next agent counts nothing twice.

    pods: pod's UID → mark (a container's name, or one that begins with ~) → how many of it were counted.
    """

    pods: dict[ShortText, dict[ShortText, Count]]


AnyRecord = Identity | Heartbeat | Latency | Hardware | RingEntry | ProbeRequest | BindFailure | CountedTotalsShard
