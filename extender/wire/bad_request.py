"""Says why a request cannot be read, by the path of the field, and limits how large its parts may be."""

from typing import Any

import msgspec

from leadsman.runtime.decode_errors import explain

# The whole body is bounded by the HTTP server.

MAX_NODES = 20_000
"""A request may name this many nodes: four times what Kubernetes supports in a cluster, and what the followed state may
hold."""

MAX_OBJECT_BYTES = 4 << 20
"""A pod or node may have this size: etcd holds at most 1.5 MiB of one, mostly not as JSON."""


class BadRequest(ValueError):
    """The body is not what the verb takes; the text is `path: what is wrong; what is allowed`."""


class TooManyItems(BadRequest):
    """A body lists more nodes ($.Nodes.items) than the type that it was decoded as has room for."""


_TOO_MANY_ITEMS = "expected array of at most length "
_LARGEST_REREAD_BYTES = 1 << 20


def bad_request(error: Exception, body: bytes | bytearray, root: str = "$") -> BadRequest:
    """Names the fault by its path: `$.Pod.metadata.labels.delay_x: expected str, got int`. error: one of UNREADABLE."""
    path, what = explain(error)
    if what.startswith(_TOO_MANY_ITEMS):  # msgspec gives no path here.
        most = what.removeprefix(_TOO_MANY_ITEMS)
        return TooManyItems(f"$.Nodes.items: more than {most} items; must have at most as many")
    if path.endswith("[...]") and len(body) <= _LARGEST_REREAD_BYTES:
        path = _locate_value(path, body)
    return BadRequest(f"{root}{path[1:]}: {what}")


def _locate_value(path: str, body: bytes | bytearray) -> str:
    """Returns `$.Pod.metadata.labels[...]` with the first key or index whose value is no string, all we ask of them."""
    *keys, last = path[2:].removesuffix("[...]").split(".")
    try:
        found: Any = msgspec.json.decode(body)
        for key in (*keys, last):
            found = found[key]
        if isinstance(found, list):
            return path.replace("[...]", f"[{next(n for n, value in enumerate(found) if not isinstance(value, str))}]")
        return path.replace("[...]", "." + next(k for k, value in found.items() if not isinstance(value, str)))
    except (LookupError, TypeError, AttributeError, StopIteration, ValueError, RecursionError):
        return path
