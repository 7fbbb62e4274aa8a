"""The arguments of a request: an object whose keys Go reads whatever their case."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from extender.wire.errors import BadRequest, bad_request
from extender.wire.limits import MAX_OBJECT_BYTES
from leadsman.runtime.decode_errors import UNREADABLE

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
    """Without a copy of what is long."""
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
