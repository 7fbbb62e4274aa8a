"""Bodies read with a memory: kube-scheduler offers mostly the same nodes for one pod after the other."""

import msgspec
from msgspec import Raw, Struct

from decision.model import Candidates
from decision.recent import Recent
from extender import wire
from extender.wire import Asked

LISTS = 4
"""Kept of each of two generations, some 0.4 MB each at 5,000 nodes."""

LARGEST_BYTES = 1 << 20


_NULL = b"null"


class _Parts(Struct, rename="pascal"):
    """In kube-scheduler's spelling."""

    pod: Raw = Raw(_NULL)
    nodes: Raw = Raw(_NULL)
    node_names: Raw = Raw(_NULL)


_decode = msgspec.json.Decoder(_Parts).decode


class Reader:
    """wire.read_args with the same answers and errors; a list of names met before is the same object again."""

    def __init__(self) -> None:
        self._known: Recent[bytes, Candidates] = Recent(LISTS)

    def read(self, body: bytes | bytearray) -> Asked:
        """BadRequest."""
        listed = _listed(body)
        known = self._known.get(listed) if listed else None
        if known is not None:
            return Asked(wire.read_pod(body), known)
        asked = wire.read_args(body)
        if listed and asked.items is None:
            self._known.keep(listed, asked.names)
        return asked


def _listed(body: bytes | bytearray) -> bytes:
    """The bytes of the list of names, spelled as kube-scheduler does; empty when it is not all there is beside the pod,
    or is large."""
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return b""
    if _null(found.pod) or not _null(found.nodes):
        return b""
    names = bytes(found.node_names)
    return names if names.startswith(b"[") and len(names) <= LARGEST_BYTES else b""


def _null(raw: Raw) -> bool:
    """Without a copy of what is long."""
    return len(memoryview(raw)) == len(_NULL) and bytes(raw) == _NULL
