"""Builds and parses the keys of records; nothing else does.

    /leadsman/v1/nodes/<node>/identity | heartbeat | latency | reachability | hardware
    /leadsman/v1/nodes/<node>/rewards/<pod type>
    /leadsman/v1/nodes/<node>/counted/<shard>  what the agent has counted; only the node's next agent reads it
    /leadsman/v1/ring/<position>/<node>        position: hash of the name, 16 hexadecimal digits
    /leadsman/v1/probes/<node>/<target>        a pair to measure now
    /leadsman/v1/binds/<node>/<pod's UID>      a bind that failed, until the node's agent has counted it
    /leadsman/v1/reservations/<pod's UID>      what is reserved of devices for a pod, until it is seen bound

Each has one prefix for a node, also on the ring, where the position follows from the name. So an etcd role can confine
an agent to its own keys.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import NamedTuple

from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, Reachability, RingEntry

NODES_PREFIX = "/leadsman/v1/nodes/"
RING_PREFIX = "/leadsman/v1/ring/"
RING_END = "/leadsman/v1/ring0"
"""The first key after all ring keys."""
PROBES_PREFIX = "/leadsman/v1/probes/"
BIND_FAILURES_PREFIX = "/leadsman/v1/binds/"
RESERVATIONS_PREFIX = "/leadsman/v1/reservations/"
RING_SIZE = 1 << 64
"""Positions on the ring. Two of 10,000 nodes share one in 1 of 10^11 clusters, and are then merely neighbours."""

RECORD_BY_KIND: dict[str, type[AnyRecord]] = {
    "identity": Identity,
    "heartbeat": Heartbeat,
    "latency": Latency,
    "hardware": Hardware,
    "reachability": Reachability,
}
REWARDS_KIND = "rewards"
COUNTED_SHARDS = tuple("0123456789abcdef")
"""A write names the shards that changed, so that its size follows the changes."""
KIND_BY_RECORD = {record: kind for kind, record in RECORD_BY_KIND.items()}

# RFC 1123 subdomain, as Kubernetes checks node names: apimachinery/pkg/util/validation/validation.go.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NODE_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_NAME = 253

# A label's value or an object's name: apimachinery/pkg/util/validation/validation.go. No '/', so no escaping.
_POD_TYPE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_UID = re.compile(r"[A-Za-z0-9-]{1,63}")


class NodeKey(NamedTuple):
    """A parsed key of a node's record.

    kind: of RECORD_BY_KIND, or REWARDS_KIND.
    pod_type: only of REWARDS_KIND.
    """

    node: str
    kind: str
    pod_type: str = ""

    def __str__(self) -> str:
        return f"{node_prefix(self.node)}{self.kind}" + (f"/{self.pod_type}" if self.pod_type else "")


def is_node_name(text: str) -> bool:
    """Tells whether `text` is an RFC 1123 subdomain of at most 253 characters."""
    return len(text) <= _LONGEST_NAME and _NODE_NAME.fullmatch(text) is not None


def check_node_name(name: str) -> str:
    """Returns the name itself. Raises ValueError when it is not a node name."""
    if not is_node_name(name):
        raise ValueError(
            f"node name {name!r} must be lower-case letters, digits, '-' and '.', "
            f"beginning and ending with a letter or digit, at most {_LONGEST_NAME} characters"
        )
    return name


def node_prefix(node: str) -> str:
    """Returns the prefix of the node's records. Raises ValueError when the name cannot be part of a key."""
    return f"{NODES_PREFIX}{check_node_name(node)}/"


def record_key(node: str, record: type[AnyRecord]) -> str:
    """Returns the key of a node's record. Raises ValueError as in `node_prefix`."""
    if record is RingEntry:
        return f"{ring_position_prefix(ring_position(node))}/{check_node_name(node)}"
    return f"{node_prefix(node)}{KIND_BY_RECORD[record]}"


def reward_key(node: str, pod_type: str) -> str:
    """Returns the key of a node's reward for a pod type. Raises ValueError when either cannot be part of a key."""
    if not is_pod_type(pod_type):
        raise ValueError(
            f"pod type {pod_type!r} must be letters, digits, '-', '_' and '.', "
            f"beginning and ending with a letter or digit, at most {_LONGEST_NAME} characters"
        )
    return f"{rewards_prefix(node)}{pod_type}"


def rewards_prefix(node: str) -> str:
    """Returns the prefix of the node's rewards. Raises ValueError as in `node_prefix`."""
    return f"{node_prefix(node)}{REWARDS_KIND}/"


def counted_totals_prefix(node: str) -> str:
    """Returns the prefix of what the node's agent has counted. Raises ValueError as in `node_prefix`."""
    return f"{node_prefix(node)}counted/"


def counted_totals_key(node: str, shard: str) -> str:
    """Returns the key of one shard of what the node's agent has counted. Raises ValueError as in `node_prefix`, and for
    what is no shard."""
    if shard not in COUNTED_SHARDS:
        raise ValueError(f"shard {shard!r}: must be one hexadecimal digit")
    return f"{counted_totals_prefix(node)}{shard}"


def counted_shard(uid: str) -> str:
    """Returns the shard that holds what was counted of a pod."""
    return COUNTED_SHARDS[blake2b(uid.encode(), digest_size=1).digest()[0] % len(COUNTED_SHARDS)]


def is_pod_type(text: str) -> bool:
    """Tells whether `text` can name a pod type: any label value that is not empty, any object's name."""
    return len(text) <= _LONGEST_NAME and _POD_TYPE.fullmatch(text) is not None


def parse(raw: str) -> NodeKey | None:
    """Parses what `record_key` and `reward_key` made. None for a key of another kind or version, which is no error."""
    if not raw.startswith(NODES_PREFIX):
        return None
    node, _, rest = raw[len(NODES_PREFIX) :].partition("/")
    kind, slash, pod_type = rest.partition("/")
    if max(len(node), len(pod_type)) > _LONGEST_NAME or (known_node := _parse_node_name(node)) is None:
        return None
    if kind == REWARDS_KIND:
        known_type = _parse_pod_type(pod_type)
        return None if known_type is None else NodeKey(known_node, kind, known_type)
    return NodeKey(known_node, kind) if kind in RECORD_BY_KIND and not slash else None


_CACHED_NAMES = 1024
"""This many names of nodes, and of pod types, are kept decoded. In a listing a node's keys come one after another, and
all nodes have the same types."""


@lru_cache(_CACHED_NAMES)
def _parse_node_name(text: str) -> str | None:
    """Returns the name, as the one string that all parsed keys have; None when it is not a node name."""
    return intern(text) if is_node_name(text) else None


@lru_cache(_CACHED_NAMES)
def _parse_pod_type(text: str) -> str | None:
    return intern(text) if is_pod_type(text) else None


def ring_position(name: str) -> int:
    """Returns a node's position on the ring, 0..RING_SIZE - 1."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big")


def ring_position_prefix(position: int) -> str:
    """Returns the prefix of all keys at `position`; keys of an earlier position sort before it."""
    return f"{RING_PREFIX}{position:016x}"


def parse_ring_key(raw: str) -> str | None:
    """Returns the node of a ring key. None when it is not a ring key, or its position is not the name's."""
    node = raw.rpartition("/")[2]
    return node if is_node_name(node) and raw == record_key(node, RingEntry) else None


def probes_prefix(node: str) -> str:
    """Returns the prefix of the probe requests to `node`. Raises ValueError as in `node_prefix`."""
    return f"{PROBES_PREFIX}{check_node_name(node)}/"


def probe_request_key(node: str, target: str) -> str:
    """Returns the key of a probe request; a pair has one, so that a repeated request changes nothing. Raises
    ValueError."""
    return f"{probes_prefix(node)}{check_node_name(target)}"


def bind_failures_prefix(node: str) -> str:
    """Returns the prefix of binds to `node` that failed. Raises ValueError as in `node_prefix`."""
    return f"{BIND_FAILURES_PREFIX}{check_node_name(node)}/"


def bind_failure_key(node: str, uid: str) -> str:
    """Returns the key of a failed bind; a pod and node have one, so that several attempts count once. Raises
    ValueError."""
    return f"{bind_failures_prefix(node)}{_checked_uid(uid)}"


def reservation_key(uid: str) -> str:
    """Returns the key of what is reserved of devices for a pod. Raises ValueError when the UID cannot be part of a
    key."""
    return f"{RESERVATIONS_PREFIX}{_checked_uid(uid)}"


def _checked_uid(uid: str) -> str:
    if not _UID.fullmatch(uid):
        raise ValueError(f"UID {uid!r} must be at most 63 letters, digits and '-'")
    return uid
