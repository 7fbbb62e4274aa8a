"""Names the errors of calls to the API server by what the caller can do.

ApiError
├── Unavailable            no response, or a 5xx: the result is unknown; try again later
│   ├── TooManyRequests    429: try again, but not before retry_after_seconds
│   ├── StreamSilent       nothing came on a stream for too long; open it again
│   ├── ResponseTooLarge   more bytes than the caller takes; ask for less at once
│   └── MalformedResponse  not a response of an API server: cut, or a proxy's page; try again later
├── NotLeader              this process may not write now: its lead has ended; nothing was sent
├── Unauthorized           401, or the token file cannot be read: it is read again for the next call
├── Forbidden              403: a role is missing; the message names verb and resource
├── NotFound               404: the object does not exist
├── Conflict               409: the object exists already, or has changed since it was read; read it again
├── Gone                   410: the resourceVersion or continue token is too old; list again
└── InvalidRequest         any other 4xx, or nowhere to create an object: the request is wrong; the message says where
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from leadsman.runtime.decode_errors import UNREADABLE

LONGEST_RETRY_AFTER_SECONDS = 120.0
"""A longer Retry-After is cut to this: a follower that is sent away for a day by mistake must come back."""

_LONGEST_MESSAGE_BYTES = 200
_SERVER_ERROR = 500


class ApiError(Exception):
    """A call to the API server failed.

    status: of HTTP; 0 without a response.
    retry_after_seconds: as the API server requested; None when it did not.
    """

    def __init__(self, text: str, status: int = 0, retry_after_seconds: float | None = None):
        super().__init__(text)
        self.status, self.retry_after_seconds = status, retry_after_seconds


class Unavailable(ApiError):
    """The API server did not answer, or answered with a 5xx."""


class TooManyRequests(Unavailable):
    """The API server answered 429."""


class StreamSilent(Unavailable):
    """Nothing came on a stream for too long."""


class ResponseTooLarge(Unavailable):
    """The response has more bytes than the caller takes; the rest was not read."""


class MalformedResponse(Unavailable):
    """The response does not look like one of an API server."""


class NotLeader(ApiError):
    """This process may not write now, so nothing was sent."""


class Unauthorized(ApiError):
    """The API server answered 401, or the token file cannot be read."""


class Forbidden(ApiError):
    """The API server answered 403."""


class NotFound(ApiError):
    """The API server answered 404."""


class Conflict(ApiError):
    """The API server answered 409."""


class Gone(ApiError):
    """The API server answered 410."""


class InvalidRequest(ApiError):
    """The API server answered any other 4xx, or a 404 to the creation of an object."""


class Status(Struct, frozen=True):
    """The body of a refusal, and the object of a watch's ERROR: a Status of meta.k8s.io/v1."""

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
    """Makes the error of an unsuccessful response. retry_after: the header, in seconds."""
    kind = _BY_STATUS.get(status) or _by_hundred(status)
    return kind(f"API server: {status} {status_message(body)}", status, _seconds(retry_after))


def status_message(body: bytes) -> str:
    """Returns the message of a Status, else the beginning of the body."""
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
