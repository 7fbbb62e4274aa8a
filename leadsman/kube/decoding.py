"""The API's JSON → Structs. Go writes null for what is empty here and there; that counts as absent."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from leadsman.kube.errors import MalformedResponse
from leadsman.runtime.decode_errors import UNREADABLE, explain

T = TypeVar("T")


def decode_json(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Garbled when it is no JSON, or not such an object."""
    try:
        found: T = json_decoder(kind).decode(body)  # type: ignore[arg-type]
    except msgspec.ValidationError:
        return _without_nulls(body, kind)
    except UNREADABLE as error:
        raise MalformedResponse(f"no JSON: {explain(error)}: {_beginning(body)}") from error
    return found


def _without_nulls(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """The slow way, for what a null spoiled."""
    try:
        return msgspec.convert(_strip_nulls(msgspec.json.decode(body)), kind)
    except UNREADABLE as error:
        raise MalformedResponse(f"no {kind.__name__}: {explain(error)}: {_beginning(body)}") from error


def _strip_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip_nulls(one) for key, one in value.items() if one is not None}
    return [_strip_nulls(one) for one in value] if isinstance(value, list) else value


def _beginning(body: bytes | msgspec.Raw) -> str:
    return bytes(body)[:80].decode(errors="replace")


@cache
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Made once for each type."""
    return msgspec.json.Decoder(kind)
