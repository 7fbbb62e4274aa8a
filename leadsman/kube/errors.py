"""What a call may end with, named by what the caller can do.

ApiError
├── Unavailable          no answer, or a 5xx: nothing is known; try again later
│   ├── TooManyRequests  429: try again, but not before retry_after_seconds
│   ├── Silent           a stream on which nothing came for too long; open it anew
│   └── Garbled          no answer that an API server gives: cut short, or a proxy's page; try again later
├── Unauthorized         401, or the token's file cannot be read: the file is read again for the next call
├── Forbidden            403: a role is missing; the message names verb and resource
├── NotFound             404: it is not there
├── Conflict             409: it exists already, or has changed since it was read; read it again
├── Gone                 410: that resourceVersion or continue token is too old; list anew
└── Invalid              any other 4xx: the request is wrong; the message says where
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from leadsman.runtime.decode_errors import UNREADABLE

LONGEST_RETRY_AFTER_SECONDS = 120.0
"""A Retry-After above this is cut: a follower that was told a day by mistake must come back."""

_LONGEST_MESSAGE_BYTES = 200
_SERVER_ERROR = 500


class ApiError(Exception):
    """status: HTTP's, 0 without an answer. retry_after_seconds: as the API server asked for; None when it did not."""

    def __init__(self, text: str, status: int = 0, retry_after_seconds: float | None = None):
        super().__init__(text)
        self.status, self.retry_after_seconds = status, retry_after_seconds


class Unavailable(ApiError): ...


class TooManyRequests(Unavailable): ...


class StreamSilent(Unavailable): ...


class MalformedResponse(Unavailable): ...


class Unauthorized(ApiError): ...


class Forbidden(ApiError): ...


class NotFound(ApiError): ...


class Conflict(ApiError): ...


class Gone(ApiError): ...


class InvalidRequest(ApiError): ...


class Status(Struct, frozen=True):
    """meta.k8s.io/v1 Status: the body of a refusal, and the object of a watch's ERROR."""

    message: str = ""
    code: int = 0


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def error_from_response(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Of an answer that is no success. retry_after: the header, in seconds."""
    kind = _BY_STATUS.get(status) or _by_hundred(status)
    return kind(f"API server: {status} {status_message(body)}", status, _seconds(retry_after))


def status_message(body: bytes) -> str:
    """A Status' message, else the beginning of whatever it is."""
    try:
        return msgspec.json.decode(body, type=Status).message
    except UNREADABLE:
        return body[:_LONGEST_MESSAGE_BYTES].decode(errors="replace")


def _by_hundred(status: int) -> type[ApiError]:
    if status >= _SERVER_ERROR:
        return Unavailable
    return InvalidRequest if status >= 400 else MalformedResponse


def _seconds(retry_after: str | None) -> float | None:
    """The API server sends whole seconds. A date, which HTTP allows, counts as none."""
    if retry_after is None or not (retry_after.isascii() and retry_after.isdecimal()):
        return None
    return min(float(retry_after), LONGEST_RETRY_AFTER_SECONDS)
