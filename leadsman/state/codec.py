"""Encodes records as JSON, readable with etcdctl, and decodes them. At most 4 KiB a value."""

from typing import TypeVar

import msgspec

from leadsman.runtime.decode_errors import UNREADABLE, explain
from leadsman.state.records import AnyRecord, Record, Reward

LARGEST_VALUE_BYTES = 4096

R = TypeVar("R", bound=Record)

_encoder = msgspec.json.Encoder()
_decoders: dict[type[Record], msgspec.json.Decoder[Record]] = {
    record: msgspec.json.Decoder(record) for record in (*AnyRecord.__args__, Reward)
}


class BadRecord(ValueError):
    """The bytes are not a record that a reader can use. Says why, and where in the document."""


def encode(record: AnyRecord | Reward) -> bytes:
    """The record's bytes. BadRecord when no reader would take them: out of bounds, not finite, over 4 KiB."""
    data = _encoder.encode(record)
    if decode(type(record), data) != record:
        raise BadRecord(f"{type(record).__name__} does not survive its own encoding")
    return data


def size_bytes(record: AnyRecord | Reward) -> int:
    """The length of the record's bytes. encode refuses more than LARGEST_VALUE_BYTES."""
    return len(_encoder.encode(record))


def decode(record: type[R], data: bytes) -> R:
    """The record in `data`. BadRecord for anything else, whatever the bytes are."""
    if len(data) > LARGEST_VALUE_BYTES:
        raise BadRecord(f"record larger than {LARGEST_VALUE_BYTES} bytes")
    try:
        decoded = _decoders[record].decode(data)
    except UNREADABLE as error:
        raise BadRecord(str(explain(error))) from error
    assert isinstance(decoded, record)
    return decoded
