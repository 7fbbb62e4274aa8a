"""Where each record stands. The only place where a key is built or parsed.

    /leadsman/v1/nodes/<node>/identity | heartbeat | latency | hardware

One prefix a node, so that an etcd role can confine an agent to its own.
"""

import re
from typing import NamedTuple

from clusterstate.records import AnyRecord, Hardware, Heartbeat, Identity, Latency

NODES = "/leadsman/v1/nodes/"

KINDS: dict[str, type[AnyRecord]] = {
    "identity": Identity,
    "heartbeat": Heartbeat,
    "latency": Latency,
    "hardware": Hardware,
}
NAMES = {record: kind for kind, record in KINDS.items()}

# RFC 1123 subdomain, as Kubernetes checks node names: apimachinery/pkg/util/validation/validation.go.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NODE_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_NAME = 253


class Key(NamedTuple):
    node: str
    kind: str

    def __str__(self) -> str:
        return f"{prefix(self.node)}{self.kind}"


def check_node_name(name: str) -> str:
    """The name itself. ValueError when it is no RFC 1123 subdomain of at most 253 characters."""
    if len(name) > _LONGEST_NAME or not _NODE_NAME.fullmatch(name):
        raise ValueError(
            f"node name {name!r}: want lower-case letters, digits, '-' and '.', "
            f"beginning and ending with a letter or digit, at most {_LONGEST_NAME} characters"
        )
    return name


def prefix(node: str) -> str:
    """The prefix of all that is known of `node`. ValueError when the name cannot be part of a key."""
    return f"{NODES}{check_node_name(node)}/"


def key(node: str, record: type[AnyRecord]) -> str:
    """The key of a node's record. ValueError as in `prefix`."""
    return f"{prefix(node)}{NAMES[record]}"


def parse(raw: str) -> Key | None:
    """The inverse of `key`. None for a key of another kind or version: not ours to read, and no fault."""
    node, slash, kind = raw.removeprefix(NODES).partition("/")
    known = raw.startswith(NODES) and slash and kind in KINDS and len(node) <= _LONGEST_NAME
    return Key(node, kind) if known and _NODE_NAME.fullmatch(node) else None
