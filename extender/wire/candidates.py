"""The nodes that a request offers, by their names or as whole objects."""

import re
from bisect import bisect
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from extender.wire.errors import BadRequest, bad_request
from extender.wire.limits import MAX_NODES, MAX_OBJECT_BYTES
from leadsman.decision.model import CandidateNodes
from leadsman.runtime.decode_errors import UNREADABLE

NODE_LIST_SIZES = (0, 1_250, 5_000, MAX_NODES)
"""Of the lists that a request is decoded as. A field of a struct takes half a KB as long as the process lives: 11 MB at
MAX_NODES."""

_NO_ITEM = Raw(b"")


def node_list(size: int) -> type[Struct]:
    """{"items": [...]} of up to `size` items; the attribute is None, or a struct without its last fields.

    msgspec refuses an array at the first item that has no field, where the length of a list is checked after all its
    items are made.
    """
    fields = [(f"item{number}", Raw, _NO_ITEM) for number in range(size)]
    items = msgspec.defstruct("Items", fields, array_like=True, forbid_unknown_fields=True, gc=False)
    return msgspec.defstruct("NodeList", [("items", items | None, None)])


class _Name(Struct):
    name: str


class _Node(Struct):
    metadata: _Name


_NAMES = msgspec.json.Decoder(list[str] | None)
_NODE = msgspec.json.Decoder(_Node)


def read_node_names(listed: bytes) -> CandidateNodes:
    """The bytes of a list of names. BadRequest."""
    return CandidateNodes.of(decode_names(listed))


def decode_names(listed: bytes) -> Sequence[str]:
    """As they are listed, a name perhaps twice. BadRequest."""
    if listed.count(b",") >= MAX_NODES:  # No node's name has a comma.
        raise BadRequest(f"$.NodeNames: more than {MAX_NODES} names; must have at most as many, without commas")
    try:
        return _NAMES.decode(listed) or ()
    except UNREADABLE as error:
        raise bad_request(error, listed, "$.NodeNames") from error


# As kube-scheduler writes a node. Read so, 5,000 nodes are named in 4 ms; decoding each takes 56 ms.
NAME_FIRST = re.compile(rb'\{"metadata":\{"name":"([-.a-z0-9]+)"')


def listed_items(items: Struct | None) -> list[Raw]:
    """The items that are there: those after them have no bytes."""
    if items is None:
        return []
    raw_items = list(msgspec.structs.astuple(items))
    del raw_items[bisect(raw_items, 0, key=_is_absent) :]
    return raw_items


def _is_absent(item: Raw) -> bool:
    return memoryview(item).nbytes == 0


def nodes_by_name(items: Sequence[Raw]) -> dict[str, Raw]:
    """Name → the bytes of the first item of that name, in the order given."""
    named: dict[str, Raw] = {}
    for position, item in enumerate(items):
        check_item(item, position)
        first = NAME_FIRST.match(memoryview(item))
        named.setdefault(first[1].decode() if first else _name(item, position), item)
    return named


def check_item(item: Raw | bytes, position: int) -> None:
    """The item is answered as it came, and most of it is never decoded."""
    if (size := memoryview(item).nbytes) > MAX_OBJECT_BYTES:
        raise BadRequest(f"$.Nodes.items[{position}]: has {size} bytes; must have at most {MAX_OBJECT_BYTES}")
    try:
        str(memoryview(item), "utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"$.Nodes.items[{position}]: {error}; must be UTF-8") from error


def _name(item: Raw, position: int) -> str:
    try:
        return _NODE.decode(item).metadata.name
    except UNREADABLE as error:
        raise bad_request(error, bytes(item), f"$.Nodes.items[{position}]") from error
