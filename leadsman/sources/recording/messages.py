"""The messages of a recording, as MessagePack: what changed in the inputs, then the request that was decided on them.

    Begin               everything before is forgotten: the messages that follow need none before it
    …Changed, …Row      one part of the inputs, from here on
    Request             a decided request; its inputs are what the messages before it add up to

Each is an array whose first element says which it is, so that a field costs no name. A recording of another FORMAT is
refused; a field that is added at a message's end, with a default, is read by both.
"""

from types import MappingProxyType

import msgspec
from msgspec import UNSET, Struct, UnsetType

from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.decision.delay.views import LastRoundTrips
from leadsman.decision.devices.model import AskedDevices, TentativeGrant
from leadsman.decision.healing.model import RoomHold
from leadsman.decision.model import PodInfo, Refusal
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import TasPolicies
from leadsman.decision.workloads import PlacedPods
from leadsman.state.records import Hardware, Heartbeat, Identity, Latency
from leadsman.state.reward_view import AgedReward

FORMAT = 1

WorkloadKey = tuple[str, str]
"""Namespace and name."""


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The base of all messages."""


class Begin(Message, frozen=True, tag=0):
    """at_seconds, at_unix_seconds: the same moment on the monotonic clock of `now` and on the wall clock."""

    format: int
    leadsman: str
    at_seconds: float
    at_unix_seconds: float


class NamesAdded(Message, frozen=True, tag=1):
    """Names that later messages give by their number (`packing.NameNumbers`)."""

    names: list[str]


class NodeFields(Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields of a NodeState that changed. `reachability` is left out: no decision reads it."""

    identity: Identity | UnsetType | None = UNSET
    heartbeat: Heartbeat | UnsetType | None = UNSET
    latency: Latency | UnsetType | None = UNSET
    hardware: Hardware | UnsetType | None = UNSET
    changed_at: float | UnsetType | None = UNSET


class NodesChanged(Message, frozen=True, tag=2):
    """As all `…Changed` of tables: first `gone`, then `changed`, then all keys in this order (`table_changes`)."""

    changed: dict[str, NodeFields]
    gone: list[str] = []
    order: list[str] | None = None


class RewardsChanged(Message, frozen=True, tag=3):
    """Of one pod type. A type without a node is gone."""

    pod_type: str
    changed: dict[str, AgedReward]
    gone: list[str] = []
    order: list[str] | None = None


class PolicyChanged(Message, frozen=True, tag=4):
    policy: Policy


class WorkloadsChanged(Message, frozen=True, tag=5):
    """read_at: as in WorkloadIndex."""

    read_at: float | None
    changed: dict[WorkloadKey, dict[str, PlacedPods]] = {}
    gone: list[WorkloadKey] = []
    order: list[WorkloadKey] | None = None


class RolesChanged(Message, frozen=True, tag=6):
    roles: dict[str, str]


class SelfHealingFields(Struct, frozen=True, omit_defaults=True):
    """The fields of a SelfHealing that changed."""

    refused: dict[str, str] | UnsetType = UNSET
    holds: dict[str, tuple[RoomHold, ...]] | UnsetType = UNSET
    backup_owners: dict[str, frozenset[str]] | UnsetType = UNSET
    placeholders: frozenset[str] | UnsetType = UNSET
    read_at: float | UnsetType | None = UNSET


class SelfHealingChanged(Message, frozen=True, tag=7):
    fields: SelfHealingFields


class LastRoundTripsChanged(Message, frozen=True, tag=8):
    by_node: dict[str, LastRoundTrips]


class TasPoliciesChanged(Message, frozen=True, tag=9):
    policies: TasPolicies


class RecordedReadings(Struct, frozen=True, array_like=True):
    """values: in nanos, as decimal text, because they have more than 64 bits. read_at: of each; None: all are fresh."""

    nodes: bytes
    values: str
    read_at: bytes | None
    oldest_read_at: float


class MetricTableChanged(Message, frozen=True, tag=10):
    """The table at this place. is_polled: false: it is that of the agents' metrics, which are in the nodes' states."""

    place: int
    is_polled: bool
    max_age_seconds: float
    changed: dict[str, RecordedReadings] = {}
    gone: list[str] = []


class MetricTablesCut(Message, frozen=True, tag=11):
    """There are only so many tables from here on."""

    tables: int


class DelayViewsChanged(Message, frozen=True, tag=12):
    """views: each the place that the view had before, or a new one, of which no row has come yet."""

    views: list["int | NewDelayView"]


class NewDelayView(Struct, frozen=True, array_like=True):
    """As DelayView."""

    source: str
    nodes: bytes
    read_at: float | None
    fresh_until: float


class DelayRow(Message, frozen=True, tag=13):
    """What the view at this place says of a reference; times in ms."""

    view: int
    reference: str
    forward_nodes: bytes
    forward_ms: bytes
    backward_nodes: bytes
    backward_ms: bytes
    no_reply: bytes


class EstimatesChanged(Message, frozen=True, tag=14):
    """New estimates, of which no row has come yet. None: there are none."""

    made_at: float | None


class EstimateRow(Message, frozen=True, tag=15):
    """The estimates' row of a reference. columns: rtt, low, high, expected, lowest. source: a place in `sources`."""

    reference: str
    nodes: bytes
    columns: tuple[bytes, bytes, bytes, bytes, bytes]
    sources: list[str]
    source: bytes


class Request(Message, frozen=True, tag=16):
    """A decided request.

    candidates: the nodes asked about. victims: of preempt, node → UIDs.
    fault: why it was answered without a decision; "": it was decided.
    refusals: the distinct ones. refused: the refused nodes in the order of the answer, and the place of each one's
    refusal. scores: of the candidates in their order; None: it is not about scores.
    """

    verb: str
    at_seconds: float
    pod: PodInfo
    candidates: bytes
    victims: dict[str, list[str]]
    fault: str
    refusals: list[Refusal]
    refused: bytes
    refusal_of: bytes
    scores: bytes | None


class DevicesChanged(Message, frozen=True, tag=17):
    """The devices of these nodes are followed; of the grants, all. asked: None: as before."""

    grants: tuple[TentativeGrant, ...]
    grants_problem: str
    changed: dict[str, NodeDevices] = {}
    gone: list[str] = []
    order: list[str] | None = None
    asked: AskedDevices | None = None


AnyMessage = (
    Begin
    | NamesAdded
    | NodesChanged
    | RewardsChanged
    | PolicyChanged
    | WorkloadsChanged
    | RolesChanged
    | SelfHealingChanged
    | LastRoundTripsChanged
    | TasPoliciesChanged
    | MetricTableChanged
    | MetricTablesCut
    | DelayViewsChanged
    | DelayRow
    | EstimatesChanged
    | EstimateRow
    | Request
    | DevicesChanged
)

_BLOCK = msgspec.msgpack.Decoder(list[AnyMessage])


def _plain(value: object) -> object:
    """What msgspec does not know. NotImplementedError is how an enc_hook says that it does not know it either."""
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


def encode(message: Message) -> bytes:
    return _ENCODER.encode(message)


def join(encoded: list[bytes]) -> bytes:
    """Encoded messages as a block: a MessagePack array of 32-bit length."""
    return b"".join((b"\xdd", len(encoded).to_bytes(4, "big"), *encoded))


def decode_block(block: bytes) -> list[AnyMessage]:
    """The messages of a block. An error of decode_errors.UNREADABLE when it is none of this format."""
    return _BLOCK.decode(block)
