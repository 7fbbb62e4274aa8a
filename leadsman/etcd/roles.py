"""Who may read and write which keys. Pure.

    agent/<node>   reads and writes the node's records and its entry on the ring, reads the ring and its probe
                   requests, reads and deletes its failed binds
    extender       reads all nodes' records; reads and writes probe requests, failed binds and reservations of devices
    controller     reads all nodes' records and reservations of devices

Source of the keys: `leadsman.state.keys`.
"""

from msgspec import Struct

from leadsman.state import keys
from leadsman.state.etcd_json import prefix_end
from leadsman.state.records import RingEntry

READ, READ_WRITE = "READ", "READWRITE"


class Permission(Struct, frozen=True, order=True):
    """A right on the keys from `key` to before `range_end`; "": on that key alone. kind: READ or READWRITE."""

    kind: str
    key: str
    range_end: str = ""


class EtcdRole(Struct, frozen=True):
    """A user of etcd, and the role of the same name."""

    name: str
    permissions: frozenset[Permission]


def agent_role(node: str) -> EtcdRole:
    """ValueError when the name is no node's."""
    own = (
        _under(READ_WRITE, keys.node_prefix(node)),
        Permission(READ_WRITE, keys.record_key(node, RingEntry)),
        _under(READ, keys.RING_PREFIX),
        _under(READ, keys.probes_prefix(node)),
        _under(READ_WRITE, keys.bind_failures_prefix(node)),
    )
    return EtcdRole(f"agent/{node}", frozenset(own))


def _under(kind: str, prefix: str) -> Permission:
    return Permission(kind, prefix, prefix_end(prefix.encode()).decode())


_NODES = _under(READ, keys.NODES_PREFIX)
_EXTENDERS_OWN = (keys.PROBES_PREFIX, keys.BIND_FAILURES_PREFIX, keys.RESERVATIONS_PREFIX)
EXTENDER = EtcdRole("extender", frozenset({_NODES, *(_under(READ_WRITE, prefix) for prefix in _EXTENDERS_OWN)}))
CONTROLLER = EtcdRole("controller", frozenset({_NODES, _under(READ, keys.RESERVATIONS_PREFIX)}))
