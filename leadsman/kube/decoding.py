"""Decodes the API's JSON into Structs. Go sometimes writes null for an empty value, so null counts as absent."""

from functools import cache
from typing import Any, Protocol, Self, TypeVar

import msgspec

from leadsman.kube.errors import MalformedResponse
from leadsman.runtime.decode_errors import UNREADABLE, explain

T = TypeVar("T")


class Reduced(Protocol):
    """A field that keeps less than the API server sends: each object's value is reduced before the next is decoded."""

    @classmethod
    def reduced(cls, value: object) -> Self:
        """Returns what is kept of a JSON value; raises ValueError when it is not what the field holds."""


def decode_json(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decodes the body as `kind`. Raises MalformedResponse when it is not JSON, or not such an object."""
    try:
        decoded: T = json_decoder(kind).decode(body)  # type: ignore[arg-type]
    except msgspec.ValidationError:
        return _without_nulls(body, kind)
    except UNREADABLE as error:
        raise MalformedResponse(f"API server sent no JSON: {explain(error)}: {_beginning(body)}") from error
    return decoded


def _without_nulls(body: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decodes again, slowly, when a null may have been the problem."""
    try:
        return msgspec.convert(strip_nulls(msgspec.json.decode(body)), kind, dec_hook=_reduced)
    except UNREADABLE as error:
        raise MalformedResponse(
            f"API server sent no valid {kind.__name__.lstrip('_')}: {explain(error)}: {_beginning(body)}"
        ) from error


def strip_nulls(value: Any) -> Any:
    """Returns a JSON value without fields that are null, which Kubernetes takes for absent ones."""
    if isinstance(value, dict):
        return {key: strip_nulls(one) for key, one in value.items() if one is not None}
    return [strip_nulls(one) for one in value] if isinstance(value, list) else value


def _beginning(body: bytes | msgspec.Raw) -> str:
    return bytes(body)[:80].decode(errors="replace")


@cache
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Returns the decoder of `kind`, built once."""
    return msgspec.json.Decoder(kind, dec_hook=_reduced)


def _reduced(kind: type[Reduced], value: object) -> Reduced:
    try:
        return kind.reduced(value)
    except msgspec.ValidationError as error:  # msgspec adds the path only to a plain ValueError.
        raise ValueError(str(error).partition(" - at ")[0]) from error
