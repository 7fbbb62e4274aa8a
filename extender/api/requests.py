"""Defines what all resources share: pages of lists, errors, parameters, moments as text, and which requests are
answered.

An error names the field, what was given and what is allowed. What is unknown is null, never 0."""

from bisect import bisect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import hdrs, web
from msgspec import Struct

from leadsman.network.measured_pairs import MAX_RTT_MS
from leadsman.runtime.token_bucket import TokenBucket


def iso(at: float) -> str:
    """Writes a moment as 2026-01-31T14:02:00Z. at: Unix seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of_day(at: float) -> str:
    """Writes a moment as "14:02 UTC"."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M UTC")


def from_iso(text: str) -> float:
    """Parses a moment into Unix seconds. Raises ValueError unless it is ISO 8601 with an offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without an offset")
    return moment.timestamp()


T = TypeVar("T")

NumberGrid = Sequence[Sequence[float | None]]
"""Rows of numbers; null where none is known."""


class ListPage(Struct, Generic[T], frozen=True):
    """One page of a list, with the cursor of the next one.

    next: the cursor of the next part; null: this is the last.
    total: items in all parts.
    """

    items: Sequence[T]
    next: str | None
    total: int


class ErrorDetail(Struct, frozen=True):
    """Says why a request was refused.

    field: the parameter, header or field of the body; "" when it is none of these.
    value: what was given, shortened.
    allowed: what would be accepted.
    """

    field: str
    value: str
    allowed: str
    message: str


class ErrorBody(Struct, frozen=True):
    """The body of every response whose status is 400 or above."""

    error: ErrorDetail


DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
_MAX_SHOWN = 100
"""Characters of an offending value that an error repeats."""
_COMPARED = 100
"""Names before a mistyped one in the alphabet, and after it, that it is compared with."""


class RequestError(Exception):
    """Refuses a request of the API, with an HTTP status and a body that says why."""

    def __init__(self, status: int, message: str, field: str = "", value: str = "", allowed: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(ErrorDetail(field, _as_text(value[:_MAX_SHOWN]), allowed, _as_text(message)))


def _as_text(given: str) -> str:
    """Returns a header as JSON can hold it: bytes that are no UTF-8 come as surrogates."""
    return given.encode(errors="backslashreplace").decode()


class ListQuery:
    """The limit and cursor of a request's query, which choose a page of a list."""

    def __init__(self, query: Mapping[str, str], most: int = MAX_LIMIT) -> None:
        self.limit = whole_number(query, "limit", DEFAULT_LIMIT, 1, most)
        self.offset = whole_number(query, "cursor", 0, 0, 10**9)

    def page(self, items: Sequence[T]) -> ListPage[T]:
        """Returns the part of the items that was asked for."""
        end = self.offset + self.limit
        return ListPage(items[self.offset : end], str(end) if end < len(items) else None, len(items))


def whole_number(query: Mapping[str, str], field: str, default: int, least: int, most: int) -> int:
    text = query.get(field, "")
    if not text:
        return default
    if not text.isdecimal() or not text.isascii() or len(text) > 12 or not least <= int(text) <= most:
        raise _bad(field, text, f"a whole number from {least} to {most}")
    return int(text)


def positive_ms(query: Mapping[str, str], field: str) -> float:
    text = _required(query, field, allowed := f"milliseconds, more than 0 and at most {MAX_RTT_MS:g}")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value <= MAX_RTT_MS:
        raise _bad(field, text, allowed)
    return value


def one_of(query: Mapping[str, str], field: str, allowed: Collection[str], default: str = "") -> str:
    text = query.get(field, "") or default
    if text != default and text not in allowed:
        raise _bad(field, text, " or ".join(allowed))
    return text


def moment(query: Mapping[str, str], field: str) -> float:
    """Returns the query's moment in Unix seconds; RequestError 400 when it is missing or not ISO 8601."""
    text = _required(query, field, allowed := "ISO 8601 with an offset, as 2026-01-31T14:02:00Z")
    try:
        return from_iso(text)
    except (ValueError, OverflowError) as error:
        raise _bad(field, text, allowed) from error


def existing(name: str, field: str, names: Mapping[str, T], kind: str) -> T:
    """Returns the value found under a name; RequestError 404 when there is none."""
    value = names.get(name)
    if value is None:
        what = f"there is no {kind} {name[:_MAX_SHOWN]!r}{did_you_mean(name, names)}"
        raise RequestError(404, what, field, name, f"the name of a {kind}")
    return value


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Returns what to append to an error for a name that is not among these; "" when none is like it."""
    ordered = sorted(names)
    at = bisect(ordered, name)
    # Of 5,000 names it takes 0.25 s. A mistyped one that begins well stands near the right one in the alphabet.
    near = get_close_matches(name, ordered[max(0, at - _COMPARED) : at + _COMPARED], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _required(query: Mapping[str, str], field: str, allowed: str) -> str:
    text = query.get(field, "")
    if not text:
        raise RequestError(400, f"{field} is missing", field, "", allowed)
    return text


def _bad(field: str, value: str, allowed: str) -> RequestError:
    return RequestError(400, f"{field} must be {allowed}, not {value[:_MAX_SHOWN]!r}", field, value, allowed)


LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")

POSTS_PER_SECOND, POSTS_AT_ONCE = 1.0, 5


class RequestGuard:
    """Checks each request before it is handled, and lets few POSTs through: they cost a decision or a measurement."""

    def __init__(self) -> None:
        self._posts = TokenBucket(POSTS_PER_SECOND, POSTS_AT_ONCE)

    def check(self, request: web.Request) -> None:
        """Raises RequestError when the request may not be answered."""
        _check_host(request)
        if request.method in ("GET", "HEAD"):
            return
        # Browsers say whether the page itself sends a request, also through a proxy; other clients say nothing.
        sender = request.headers.get("Sec-Fetch-Site", "same-origin")
        if sender != "same-origin":
            raise RequestError(403, "the request comes from another page", "Sec-Fetch-Site", sender, "same-origin")
        if request.content_type != "application/json":
            raise RequestError(400, "the body must be JSON", "Content-Type", request.content_type, "application/json")
        if not self._posts.try_take():
            raise RequestError(429, f"more than {POSTS_PER_SECOND:g} POST a second; try again in some seconds")


def _check_host(request: web.Request) -> None:
    host = request.headers.get(hdrs.HOST, "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in LOOPBACK_HOSTS:
        allowed = ", ".join(LOOPBACK_HOSTS)
        raise RequestError(403, f"this listener does not answer for the host {host[:100]!r}", "Host", host, allowed)


Handler = Callable[[Any, web.Request], Awaitable[Struct]]
"""Takes the LiveState and a request; returns the body."""

PAGED = ("limit", "cursor")
SEARCHED = ("search", *PAGED)


class Route(Struct, frozen=True):
    """One path of the API; the application and the OpenAPI document are both made from these.

    path: below /api/v1; parts in braces are parameters. returns: type of the body. query: names of the query's
    parameters; `required` are those without a default. takes: type of a POST's body; None: it is a GET.
    """

    path: str
    handle: Handler
    returns: Any
    summary: str
    query: Sequence[str] = ()
    required: Sequence[str] = ()
    takes: Any = None
    status: int = 200

    @property
    def method(self) -> str:
        return "POST" if self.takes else "GET"


def check_parameters(route: Route, query: Mapping[str, str]) -> None:
    """Raises RequestError when the query has a parameter that the path does not: a misspelt one would count as none."""
    for name in query.keys() - set(route.query):
        allowed = ", ".join(route.query) or "no parameter"
        raise RequestError(400, f"there is no parameter {name[:_MAX_SHOWN]!r}", name[:_MAX_SHOWN], query[name], allowed)


MAX_BODY_BYTES = 512 << 10
"""Twice what a pasted pod may have: JSON doubles each line's end and quote."""


async def read_body(request: web.Request, kind: type[T]) -> T:
    """Reads and decodes the body of a POST; raises RequestError when it is too large or not of this kind."""
    data = await request.content.read(MAX_BODY_BYTES + 1)
    while data and len(data) <= MAX_BODY_BYTES and (more := await request.content.read(MAX_BODY_BYTES + 1 - len(data))):
        data += more
    if len(data) > MAX_BODY_BYTES:
        raise RequestError(413, f"the body has more than {MAX_BODY_BYTES >> 10} KiB")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        allowed = f"a JSON object with {', '.join(kind.__struct_fields__)}"  # type: ignore[attr-defined]
        raise RequestError(400, f"the body cannot be read: {error}", "body", "", allowed) from error
