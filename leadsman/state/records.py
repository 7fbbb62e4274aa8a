"""The records in etcd: one frozen Struct each, with bounds declared on the fields.

Each is stored under its own key (see `keys`): Identity and Heartbeat say who writes and that it is alive, Latency and
Hardware what it measured, Reachability which peers answer it, RingEntry how peers find and reach the node, ProbeRequest
what it is to measure.
RTTs are in milliseconds, as on the scheduler's wire and in pod labels; every other unit is part of the field's or the
metric's name. JSON has no NaN and no infinity, so neither can be written or read.
"""

from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.state.report_timing import LONGEST_INTERVAL_SECONDS

LONGEST_PROBE_SECONDS = 10.0
"""No agent waits longer for a reply, so no pair is known to be slower, and no bound above it could be refused by it."""

RttMs = Annotated[float, Meta(ge=0, le=60_000)]
"""Milliseconds. More than a minute is an error of the measurement."""

OffsetMs = Annotated[float, Meta(ge=-60_000, le=60_000)]
"""Milliseconds, positive or negative."""

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
ShortText = Annotated[str, Meta(max_length=253)]
MetricName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}\Z")]


class ProbeMethod(StrEnum):
    """Says how a round trip was timed."""

    ICMP = "icmp"
    TCP = "tcp"
    """A TCP handshake, because ICMP is blocked. A proxy on the way may answer in the peer's place."""


class Record(Struct, frozen=True, tag_field="v", tag=1, omit_defaults=True, gc=False):
    """The base of all records. `v` is the schema version: a reader refuses one that it does not know.

    No record can be part of a cycle, so the garbage collector need not look at any (`gc=False`): 5,000 nodes with 33
    windows each are 180,000 objects, and going through them stopped all threads of the extender."""


class Identity(Record, frozen=True):
    """Tells who writes under this node's prefix. It is constant from the claim until the lease ends.

    owner: the agent's pod UID.
    epoch: the store's revision before the claim, so that it grows with each start.
    address, zone, rack: the node's.
    """

    owner: Annotated[str, Meta(min_length=1, max_length=253)]
    epoch: Count
    address: Annotated[str, Meta(min_length=1, max_length=253)]
    zone: ShortText = ""
    rack: ShortText = ""


class Heartbeat(Record, frozen=True):
    """Confirms that all other records of the node are current. Written last in each report, after a completed round.

    epoch: of the Identity.
    seq: grows with each report.
    push_interval_seconds: until the next report. The data are trusted for three of them.
    """

    epoch: Count
    seq: Count
    push_interval_seconds: Annotated[float, Meta(gt=0, le=LONGEST_INTERVAL_SECONDS)]


class PeerLatency(Struct, frozen=True, omit_defaults=True, gc=False):
    """One window of probes to one peer. A lost probe counts in `sent` only; it is never a latency.

    p50_ms, p95_ms, min_ms: of the RTTs; None: no reply was received in the window.
    jitter_ms: mean absolute difference of consecutive RTTs.
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
    """Says what a node measured. peers: peer's node name → its window."""

    peers: dict[ShortText, PeerLatency]


LOSSES_OF_A_SILENT_PEER = 3
"""Probes lost in a row that make a peer silent. At 5 % loss that happens once in 8,000 probes."""


class PeerSilence(Struct, frozen=True, omit_defaults=True, gc=False):
    """Says how long a silent peer has been silent, when the record was written.

    first_loss_age_seconds: since the first of the lost probes was sent.
    last_reply_age_seconds: since it last answered; None: it never did.
    """

    first_loss_age_seconds: Annotated[float, Meta(ge=0)]
    last_reply_age_seconds: Annotated[float, Meta(ge=0)] | None = None


class Reachability(Record, frozen=True):
    """Tells which peers answer a node's probes. It is written as soon as one stops or begins to answer, and not again
    before that.

    losses: peer's node name → probes lost in a row; fewer than LOSSES_OF_A_SILENT_PEER: it answers.
    silences: of the peers that do not answer.
    probed, answering: peers that have answered or are silent, and those of them that answer.
    local_fault: why these losses say nothing about the peers; "": they do.
    """

    losses: dict[ShortText, Count]
    silences: dict[ShortText, PeerSilence] = {}
    probed: Count = 0
    answering: Count = 0
    local_fault: ShortText = ""

    @property
    def silent_peers(self) -> frozenset[str]:
        """Returns the peers that do not answer."""
        return frozenset(name for name, losses in self.losses.items() if losses >= LOSSES_OF_A_SILENT_PEER)


class Hardware(Record, frozen=True):
    """Holds a node's hardware metrics. values: metric → value.

    Names follow node_exporter's, without the prefix; leadsman.state.metric_names has the well-known ones.
    """

    values: dict[MetricName, float]


class RingCoordinate(Struct, frozen=True, omit_defaults=True, gc=False):
    """Holds a node's network coordinate: leadsman.network.vivaldi.Coordinate, bounded. Milliseconds, except `error`."""

    point: Annotated[tuple[OffsetMs, ...], Meta(min_length=2, max_length=8)]
    height: RttMs
    adjustment: OffsetMs = 0.0
    error: Annotated[float, Meta(ge=0, le=1.5)] = 1.5


class RingEntry(Record, frozen=True):
    """Says how peers reach a node, and what they need to choose whom to probe. Read by O(k) peers; nothing watches it.

    coordinate: None until something was measured.
    reach_ms: estimated RTT within which a node counts as near to this one; None until something was measured.
    near: the nearest nodes it knows of, as candidates for peers that look for their own.
    """

    address: Annotated[str, Meta(min_length=1, max_length=253)]
    coordinate: RingCoordinate | None = None
    reach_ms: RttMs | None = None
    near: Annotated[tuple[ShortText, ...], Meta(max_length=8)] = ()


class ProbeRequest(Record, frozen=True):
    """Asks the agent under whose prefix it is stored to measure this pair now. target: node name."""

    target: Annotated[str, Meta(min_length=1, max_length=253)]


class Quality(Struct, frozen=True, gc=False):
    """Holds the quality observed of pods that ran.

    log_cost: mean of ln(cost); lower is better. A quantity of which more is better has the cost 1 / quantity.
    samples: observations, fading with the reward's half-life.
    """

    log_cost: Annotated[float, Meta(ge=-1_000, le=1_000)]
    samples: Annotated[float, Meta(gt=0, le=1_000_000)]


class Reward(Record, frozen=True):
    """Says how pods of one type fared on the node, as of `at_seconds`. Stays in the store when the agent stops.

    at_seconds, last_incident_seconds: the writer's Unix time, compared only with its own.
    healthy, failed: trials, fading with the half-life.
    recent: of the healthy ones, those that began after the last incident.
    setbacks: failures in a row without a proof of health between (leadsman.rewards.reward_updates).
    sound_pods: pods that ran well since the last incident, as far as they matter.
    early, late: failures that followed few and many sound pods; old ones make room for new ones.
    kuberl: kubeRL's reward, which does not fade.
    incidents: cause (leadsman.rewards.incident_causes) → how many since the record began.
    qualities: what was observed → Quality.
    """

    at_seconds: Annotated[float, Meta(ge=0, le=1e11)]
    half_life_seconds: Annotated[float, Meta(gt=0, le=31_536_000)] = 3_600.0
    healthy: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    recent: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    failed: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    setbacks: Annotated[int, Meta(ge=0, le=3)] = 0
    sound_pods: Annotated[int, Meta(ge=0, le=15)] = 0
    early: Annotated[float, Meta(ge=0, le=4)] = 0.0
    late: Annotated[float, Meta(ge=0, le=4)] = 0.0
    kuberl: Annotated[float, Meta(ge=0, le=1)] = 1.0
    incidents: dict[MetricName, Count] = {}
    last_cause: ShortText = ""
    last_incident_seconds: Annotated[float, Meta(ge=0, le=1e11)] | None = None
    qualities: Annotated[dict[MetricName, Quality], Meta(max_length=8)] = {}


class BindFailure(Record, frozen=True):
    """A bind of the extender to the node under whose prefix it is stored failed; that node's agent counts it.

    type: of the pod.
    cause: of leadsman.rewards.incident_causes.
    """

    type: Annotated[str, Meta(min_length=1, max_length=253)]
    cause: Annotated[str, Meta(min_length=1, max_length=64)]


class DeviceReservation(Record, frozen=True):
    """Says what is reserved of devices for a pod, from the answer to kube-scheduler until it is seen bound.

    containers: of each, extended resource → amount.
    bandwidth_bits: per second. memory_bytes: of each single device.
    nodes: that were kept for it; None: any.
    order: the revision that first wrote it, when this is not the first; 0: it is.
    """

    containers: tuple[dict[ShortText, Count], ...] = ()
    bandwidth_bits: Count | None = None
    memory_bytes: Count | None = None
    nodes: tuple[ShortText, ...] | None = None
    order: Count = 0


class CountedTotalsShard(Record, frozen=True):
    """Says what the node's agent has counted of the pods of one shard, so that the next agent counts nothing twice.

    pods: pod's UID → mark (a container's name, or one that begins with ~) → how many of it were counted.
    """

    pods: dict[ShortText, dict[ShortText, Count]]


AnyRecord = (
    Identity
    | Heartbeat
    | Latency
    | Reachability
    | Hardware
    | RingEntry
    | ProbeRequest
    | BindFailure
    | DeviceReservation
    | CountedTotalsShard
)


# Encodes records as JSON, readable with etcdctl, and decodes them. At most 4 KiB a value.

LARGEST_VALUE_BYTES = 4096

R = TypeVar("R", bound=Record)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Record], msgspec.json.Decoder[Record]] = {
    record: msgspec.json.Decoder(record) for record in (*AnyRecord.__args__, Reward)
}


class BadRecord(ValueError):
    """The bytes are not a record that a reader can use. Says why, and where in the document."""


def encode_record(record: AnyRecord | Reward) -> bytes:
    """Returns the record's bytes. Raises BadRecord when no reader would take them: out of bounds, not finite, over 4
    KiB."""
    data = _encoder.encode(record)
    if decode_record(type(record), data) != record:
        raise BadRecord(f"{type(record).__name__} does not survive its own encoding")
    return data


def record_size_bytes(record: AnyRecord | Reward) -> int:
    """Returns the length of the record's bytes. encode refuses more than LARGEST_VALUE_BYTES."""
    return len(_encoder.encode(record))


def decode_record(record: type[R], data: bytes) -> R:
    """Returns the record in `data`. Raises BadRecord for anything else, whatever the bytes are."""
    if len(data) > LARGEST_VALUE_BYTES:
        raise BadRecord(f"record larger than {LARGEST_VALUE_BYTES} bytes")
    try:
        decoded = _decoders[record].decode(data)
    except UNREADABLE as error:
        raise BadRecord(str(explain(error))) from error
    assert isinstance(decoded, record)
    return decoded
