"""Reads the nodes that a request offers, by their names or as whole objects.

kube-scheduler sends the same whole nodes with each request, 9 KB each, so they are taken out of the body while it
comes. One that is byte for byte the node met before under its name is recognised by one comparison, and neither decoded
nor kept a second time. What is taken is what the decoder of whole bodies reads: the text before the list is decoded
with an empty one, a node is one JSON value up to the comma before the next, and after the list comes what Go writes
there. Any other body is put together again and decoded whole (docs/decisions/0061).
"""

import re
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from extender.wire.bad_request import MAX_NODES, MAX_OBJECT_BYTES, BadRequest, bad_request
from leadsman.runtime.decode_errors import UNREADABLE

NODE_LIST_SIZES = (0, 1_250, 5_000, MAX_NODES)
"""Sizes of the lists that a request is decoded as. A field of a struct takes half a KB as long as the process lives: 11
MB at MAX_NODES."""

_NO_ITEM = Raw(b"")


def node_list(size: int) -> type[Struct]:
    """Makes the type of {"items": [...]} with up to `size` items; the attribute is None, or a struct without its last
    fields.

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


_NODE = msgspec.json.Decoder(_Node)


# As kube-scheduler writes a node. Read so, 5,000 nodes are named in 4 ms; decoding each takes 56 ms.
NAME_FIRST = re.compile(rb'\{"metadata":\{"name":"([-.a-z0-9]+)"')


def listed_items(items: Struct | None) -> list[Raw]:
    """Returns the items that are there; those after them have no bytes."""
    if items is None:
        return []
    raw_items = list(msgspec.structs.astuple(items))
    del raw_items[bisect(raw_items, 0, key=lambda item: memoryview(item).nbytes == 0) :]
    return raw_items


def nodes_by_name(items: Sequence[Raw]) -> dict[str, Raw]:
    """Maps each name to the bytes of the first item with it, in the order given."""
    named: dict[str, Raw] = {}
    for position, item in enumerate(items):
        check_item(item, position)
        first = NAME_FIRST.match(memoryview(item))
        named.setdefault(first[1].decode() if first else _name(item, position), item)
    return named


def check_item(item: Raw | bytes, position: int) -> None:
    """Raises BadRequest for an item that is too large or not UTF-8: it is answered as it came, mostly undecoded."""
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


# Whole nodes, taken out of a body while it comes.

MAX_KNOWN_BYTES = 48 << 20
"""Known nodes take at most so many bytes: 5,000 of 9 KB."""

FORGET_SECONDS = 600.0
"""All known nodes are forgotten after this time: those that left the cluster, or all where full nodes come no more.
Meeting 5,000 nodes for the first time takes some 60 ms more."""

KNOWN_NODE_BYTES = 400
"""Says what a known node takes beside its own bytes: its name twice, its place in the table."""

_LIST_BEGINS = b',"Nodes":{"metadata":{},"items":['
_LIST_ENDS = b']},"NodeNames":null}'
_NEXT_NODE = b',{"metadata":{"name":"'

_VALUE = msgspec.json.Decoder(Raw)


class Node(Struct, frozen=True, gc=False):
    """A node of a request, with its bytes as they came."""

    name: str
    item: bytes


class KnownNodes:
    """Keeps the last node of each name, MAX_KNOWN_BYTES in all; one that comes when there is no room is not kept.

    clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_name: dict[bytes, Node] = {}
        self._bytes, self._begun_at = 0, clock()

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: bytes) -> Node | None:
        return self._by_name.get(name)

    def put(self, name: bytes, node: Node) -> None:
        before = self._by_name.get(name)
        grows_by = len(node.item) - len(before.item) if before else len(node.item) + KNOWN_NODE_BYTES
        if self._bytes + grows_by <= MAX_KNOWN_BYTES:
            self._by_name[name] = node
            self._bytes += grows_by

    def forget_old(self) -> None:
        """Forgets all nodes once FORGET_SECONDS have passed since it last did."""
        now = self._clock()
        if now - self._begun_at >= FORGET_SECONDS:
            self._by_name.clear()
            self._bytes, self._begun_at = 0, now


class NodeStream:
    """Reads the nodes of one body while it arrives."""

    def __init__(self, known: KnownNodes) -> None:
        known.forget_old()
        self._known = known
        self._head = b""
        self._taken: list[Node] = []
        self._searched = 0
        self._goes_on = True

    def take(self, data: bytearray) -> None:
        """Takes whole nodes from the front of `data`, which holds the part of the body not taken yet."""
        if not self._head:
            self._take_head(data)
        if self._head and self._goes_on:
            self._take_nodes(data)

    def finish(self, rest: bytearray) -> tuple[bytes, Mapping[str, bytes]] | None:
        """Returns the body with an empty list, and name → node in the order given. None: the body must be decoded
        whole.

        rest: what was not taken when all had come.
        """
        if not (self._head and rest.endswith(_LIST_ENDS)):
            return None
        last = self._node(rest, 0, len(rest) - len(_LIST_ENDS))
        if last is None:
            return None
        nodes = [*self._taken, last]
        named = {node.name: node.item for node in nodes}
        return (self._head + _LIST_ENDS, named) if len(named) == len(nodes) <= MAX_NODES else None

    def whole(self, rest: bytearray) -> bytearray:
        """Restores the body as it came, for when finish(rest) is None."""
        if not self._head:
            return rest
        body = bytearray(self._head)
        for node in self._taken:
            body += node.item
            body += b","
        body += rest
        return body

    def _take_head(self, data: bytearray) -> None:
        """Takes everything up to the list's first node."""
        begins = data.find(_LIST_BEGINS, self._searched)
        if begins < 0:
            self._searched = max(0, len(data) - len(_LIST_BEGINS))
            return
        self._head, self._searched = bytes(data[: begins + len(_LIST_BEGINS)]), 0
        del data[: len(self._head)]

    def _take_nodes(self, data: bytearray) -> None:
        """Takes each node with a comma after it. The last one stays, and finish wants it to be there."""
        position = 0
        while self._goes_on and (node := self._next_node(data, position)):
            self._taken.append(node)
            position += len(node.item) + 1
            self._searched = position
            self._goes_on = len(self._taken) < MAX_NODES
        self._searched -= position
        del data[:position]

    def _next_node(self, data: bytearray, position: int) -> Node | None:
        """Returns the node at `position` with a comma after it; None while they have not come, or never will."""
        begins = NAME_FIRST.match(data, position)
        known = self._known.get(begins[1]) if begins else None
        if known and data.startswith(known.item, position) and data.startswith(b",", position + len(known.item)):
            return known
        end = data.find(_NEXT_NODE, max(position, self._searched))
        if end < 0:
            self._searched = max(position, len(data) - len(_NEXT_NODE))
            self._goes_on = len(data) - position <= MAX_OBJECT_BYTES
            return None
        node = self._node(data, position, end)
        self._goes_on = node is not None
        return node

    def _node(self, data: bytearray, begin: int, end: int) -> Node | None:
        """Returns the bytes between as a node that is known from now on; None when they are not exactly one that may
        be."""
        begins = NAME_FIRST.match(data, begin)
        if begins is None:
            return None
        name, item = begins[1], bytes(data[begin:end])
        known = self._known.get(name)
        if known and known.item == item:
            return known
        try:
            check_item(item, 0)
            _VALUE.decode(item)  # One JSON value, as the decoder of whole bodies would skip it.
        except (BadRequest, *UNREADABLE):
            return None
        if not item.endswith(b"}"):
            return None
        node = Node(name.decode(), item)
        self._known.put(name, node)
        return node
