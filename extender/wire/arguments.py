"""The arguments of a request: an object whose keys Go reads whatever their case.

Here stand how large its parts may be, and why it cannot be read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from leadsman.runtime.decode_errors import UNREADABLE, explain

# How large what is decoded may be. The whole body is bounded by the HTTP server.

MAX_NODES = 20_000
"""Of a request: four times what Kubernetes supports in a cluster, and what the followed state may hold."""

MAX_OBJECT_BYTES = 4 << 20
"""Of a pod or node: etcd holds at most 1.5 MiB of one, mostly not as JSON."""


# Why a request cannot be read, by the path of the field.


class BadRequest(ValueError):
    """The body is not what the verb takes: `path: what is wrong; what is allowed`."""


class TooManyItems(BadRequest):
    """$.Nodes.items are more than the type that they were decoded as takes."""


_TOO_MANY_ITEMS = "expected array of at most length "
_LARGEST_REREAD_BYTES = 1 << 20


def bad_request(error: Exception, body: bytes | bytearray, root: str = "$") -> BadRequest:
    """The fault by its path: `$.Pod.metadata.labels.delay_x: expected str, got int`. error: one of UNREADABLE."""
    path, what = explain(error)
    if what.startswith(_TOO_MANY_ITEMS):  # msgspec gives no path here.
        most = what.removeprefix(_TOO_MANY_ITEMS)
        return TooManyItems(f"$.Nodes.items: more than {most} items; must have at most as many")
    if path.endswith("[...]") and len(body) <= _LARGEST_REREAD_BYTES:
        path = _locate_value(path, body)
    return BadRequest(f"{root}{path[1:]}: {what}")


def _locate_value(path: str, body: bytes | bytearray) -> str:
    """`$.Pod.metadata.labels[...]` with the first key or index whose value is no string, all we ask of them."""
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


_NULL_BYTES = b"null"
_NULL = Raw(_NULL_BYTES)

Decoders = Sequence[msgspec.json.Decoder[Any]]


def decoders(**fields: Any) -> Decoders:
    """One decoder for each spelling of the keys. The result's attributes are in lower case; absent, they are None, and
    null in a Raw one."""
    spellings = (str, lambda key: key[0].lower() + key[1:], str.lower)
    return [
        msgspec.json.Decoder(
            msgspec.defstruct(
                "Arguments",
                [_optional(key.lower(), kind) for key, kind in fields.items()],
                rename={key.lower(): spelling(key) for key in fields},
            )
        )
        for spelling in spellings
    ]


def _optional(field: str, kind: Any) -> tuple[str, Any, Any]:
    return (field, Raw, _NULL) if kind is Raw else (field, kind | None, None)


def read_arguments(spellings: Decoders, body: bytes | bytearray) -> Any:
    """The arguments as Go spells them; only when there are none, those in the other spellings. BadRequest."""
    exact, *others = spellings
    try:
        args = exact.decode(body)
        return args if _present_fields(args) else _merged([decoder.decode(body) for decoder in others])
    except UNREADABLE as error:
        raise bad_request(error, body) from error


def _present_fields(args: Struct) -> Mapping[str, Any]:
    fields = msgspec.structs.asdict(args)
    return {key: value for key, value in fields.items() if not (value is None or is_null(value))}


def is_null(value: object) -> bool:
    """Tells whether a value is null, without a copy of what is long."""
    return isinstance(value, Raw) and len(memoryview(value)) == len(_NULL_BYTES) and bytes(value) == _NULL_BYTES


def _merged(spellings: Sequence[Struct]) -> Any:
    first, *others = spellings
    return msgspec.structs.replace(
        first, **{key: value for args in others for key, value in _present_fields(args).items()}
    )


def bounded(raw: Raw, path: str) -> bytes:
    """The bytes of one object, or of a list of names. BadRequest when they are too many."""
    size = memoryview(raw).nbytes
    if size > MAX_OBJECT_BYTES:
        raise BadRequest(f"{path}: has {size} bytes; must have at most {MAX_OBJECT_BYTES}")
    return bytes(raw)
