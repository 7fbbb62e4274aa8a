"""Reads the parameters of a request; what cannot be used names field, value and what is allowed."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from extender.api.contract.common import ErrorBody, ErrorDetail, ListPage
from extender.api.moments import from_iso

T = TypeVar("T")

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
_MAX_SHOWN = 100
"""Characters of an offending value that an error repeats."""


class RequestError(Exception):
    """A request that gets no answer. status: of HTTP."""

    def __init__(self, status: int, message: str, field: str = "", value: str = "", allowed: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(ErrorDetail(field, _as_text(value[:_MAX_SHOWN]), allowed, _as_text(message)))


def _as_text(given: str) -> str:
    """Bytes of a header that are no UTF-8 come as surrogates, which JSON cannot hold."""
    return given.encode(errors="backslashreplace").decode()


class ListQuery:
    """limit, cursor: of `page`. Made of a request's query."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.limit = whole_number(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
        self.offset = whole_number(query, "cursor", 0, 0, 10**9)

    def page(self, items: Sequence[T]) -> ListPage[T]:
        """The part of the items that was asked for."""
        end = self.offset + self.limit
        return ListPage(items[self.offset : end], str(end) if end < len(items) else None, len(items))


def whole_number(query: Mapping[str, str], field: str, default: int, least: int, most: int) -> int:
    text = query.get(field, "")
    if not text:
        return default
    if not text.isdecimal() or not text.isascii() or not least <= int(text[:12]) <= most:
        raise _bad(field, text, f"a whole number from {least} to {most}")
    return int(text)


def positive_ms(query: Mapping[str, str], field: str, most: float = 60_000) -> float:
    text = _required(query, field, f"milliseconds, more than 0 and at most {most:g}")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value <= most:
        raise _bad(field, text, f"milliseconds, more than 0 and at most {most:g}")
    return value


def one_of(query: Mapping[str, str], field: str, allowed: Collection[str], default: str = "") -> str:
    text = query.get(field, "") or default
    if text != default and text not in allowed:
        raise _bad(field, text, " or ".join(allowed))
    return text


def moment(query: Mapping[str, str], field: str) -> float:
    """Unix seconds."""
    text = _required(query, field, "ISO 8601 with an offset, as 2026-01-31T14:02:00Z")
    try:
        return from_iso(text)
    except (ValueError, OverflowError) as error:
        raise _bad(field, text, "ISO 8601 with an offset, as 2026-01-31T14:02:00Z") from error


def existing(name: str, field: str, names: Mapping[str, T], kind: str) -> T:
    """What the name stands for; RequestError 404 when there is nothing."""
    value = names.get(name)
    if value is None:
        near = get_close_matches(name, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise RequestError(
            404, f"there is no {kind} {name[:_MAX_SHOWN]!r}{meant}", field, name, f"the name of a {kind}"
        )
    return value


def _required(query: Mapping[str, str], field: str, allowed: str) -> str:
    text = query.get(field, "")
    if not text:
        raise RequestError(400, f"{field} is missing", field, "", allowed)
    return text


def _bad(field: str, value: str, allowed: str) -> RequestError:
    return RequestError(400, f"{field} must be {allowed}, not {value[:_MAX_SHOWN]!r}", field, value, allowed)
