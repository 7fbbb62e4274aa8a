"""Writes MoverState as JSON and reads it, for a ConfigMap. Fields that a reader does not know are skipped."""

import msgspec

from leadsman.planning.moves.state import MoverState
from leadsman.runtime.decode_errors import UNREADABLE, explain

MAX_BYTES = 900 << 10
"""The API server takes 1 MiB of data in a ConfigMap."""


class StateError(ValueError):
    """What stands there is no state: which field, what is wrong with it. Nothing is moved until somebody deletes it."""


def encode(state: MoverState) -> bytes:
    """The state's JSON, as UTF-8. StateError when it is larger than MAX_BYTES."""
    text = _ENCODER.encode(state)
    _check_size(len(text))
    return text


def decode(text: bytes) -> MoverState:
    """The state of its JSON. StateError."""
    _check_size(len(text))
    try:
        return _DECODER.decode(text)
    except UNREADABLE as error:
        path, what = explain(error)
        raise StateError(f"{path}: {what}") from error


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise StateError(f"the state has {size:,} bytes; at most {MAX_BYTES:,} are allowed")


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(MoverState)
