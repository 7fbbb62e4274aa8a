"""Errors of a client as responses: status and a line that says what was wrong."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from extender.body_limits import RequestRefused
from extender.wire.errors import BadRequest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def map_client_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What the handler returns, or the response of what it raised."""
    try:
        return await handler(request)
    except BadRequest as error:
        return _error_response(400, str(error))
    except RequestRefused as error:
        return _error_response(error.status, str(error))
    except web.HTTPException as error:
        return _error_response(error.status, error.reason, error.headers.get("Allow"))


def _error_response(status: int, text: str, allow: str | None = None) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Allow": allow} if allow else None)
