"""The header by which a process says its name to another one that asks it."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

PROCESS_NAME = "Leadsman-Name"


def with_name(name: str) -> Middleware:
    """Puts the name on each answer of an application."""

    @web.middleware
    async def named(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        response = await handler(request)
        response.headers[PROCESS_NAME] = name
        return response

    return named
