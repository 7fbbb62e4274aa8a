"""Writes SelfHealingState as JSON and reads it, for a ConfigMap. Fields that a reader does not know are skipped."""

from collections.abc import Mapping

import msgspec

from leadsman.planning.recovery.model import SelfHealingState
from leadsman.runtime.decode_errors import UNREADABLE, explain

MAX_BYTES = 900 << 10
"""The API server takes 1 MiB of data in a ConfigMap. A node's refusal takes some 200 bytes, an owner of backups 40."""


class StateError(ValueError):
    """A state that is not written, or not read."""


class UnreadableState(StateError):
    """What stands there is no state: which field, what is wrong with it. The last state that was read stays in use."""


class StateTooLarge(StateError):
    """The state is larger than MAX_BYTES. Publish it without `backup_owners`: the rest matters more."""


def encode(state: SelfHealingState) -> bytes:
    """The state's JSON, as UTF-8. StateTooLarge."""
    text = _ENCODER.encode(state)
    _check_size(len(text))
    return text


def decode(text: bytes) -> SelfHealingState:
    """The state of its JSON. UnreadableState, StateTooLarge."""
    _check_size(len(text))
    try:
        return _DECODER.decode(text)
    except UNREADABLE as error:
        path, what = explain(error)
        raise UnreadableState(f"{path}: {what}") from error


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise StateTooLarge(f"the state has {size:,} bytes; at most {MAX_BYTES:,} are allowed")


def _as_dict(value: object) -> object:
    """For mappings that msgspec does not encode itself."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not part of a state")


_ENCODER = msgspec.json.Encoder(enc_hook=_as_dict)
_DECODER = msgspec.json.Decoder(SelfHealingState)
