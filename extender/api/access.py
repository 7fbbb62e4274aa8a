"""Who may read the API, and from where a request may come.

The local listener asks for no token: only processes of this machine, and what is forwarded to it, reach it. That of
the cluster needs a bearer token that a `TokenCheck` accepts, in the header Authorization or in the cookie of `sign_in`.
Both refuse a request for another host's name, by which a page elsewhere could reach a loopback address (DNS rebinding),
and a POST that another page makes.
"""

from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from extender.api.parameters import RequestError
from leadsman.runtime.token_bucket import TokenBucket

COOKIE = "__Host-leadsman-page"
"""With this prefix a browser takes it from us by TLS alone, and sends it to this host alone (RFC 6265bis, 4.1.3.2)."""

POSTS_PER_SECOND, POSTS_AT_ONCE = 1.0, 5

TokenCheck = Callable[[str, str], Awaitable[None]]
"""Takes a token and "get" or "post". Returns when it gives the right; RequestError 401, 403 or 503 otherwise."""


class AccessGuard:
    """hosts: the names that a request may be for, without ports. check_token: None: no token is asked for."""

    def __init__(self, hosts: Collection[str], check_token: TokenCheck | None) -> None:
        self._hosts, self._check_token = frozenset(hosts), check_token
        self._posts = TokenBucket(POSTS_PER_SECOND, POSTS_AT_ONCE)

    async def check(self, request: web.Request) -> None:
        """RequestError when the request may not be answered."""
        self._check_host(request)
        is_read = request.method in ("GET", "HEAD")
        if not is_read:
            _check_origin(request)
            _check_json(request)
        if self._check_token is not None:
            await self._check_token(_bearer_token(request), "get" if is_read else "post")
        if not is_read and not self._posts.try_take():
            raise RequestError(429, f"more than {POSTS_PER_SECOND:g} POST a second; try again in some seconds")

    def check_own_page(self, request: web.Request) -> None:
        """RequestError unless our own page sent it, or a client that is no browser."""
        self._check_host(request)
        _check_origin(request)

    async def check_sign_in(self, request: web.Request, token: str) -> None:
        """RequestError unless our own form sent the token, and it gives the right to read."""
        self.check_own_page(request)
        if self._check_token is not None:
            await self._check_token(token, "get")

    def _check_host(self, request: web.Request) -> None:
        host = request.headers.get(hdrs.HOST, "")
        if _host_name(host) not in self._hosts:
            allowed = ", ".join(sorted(self._hosts))
            raise RequestError(403, f"this listener does not answer for the host {host[:100]!r}", "Host", host, allowed)


def is_let_in_by_cookie(request: web.Request) -> bool:
    """Of a request that was checked. The local listener, which has no TLS, lets nobody in by it."""
    return request.secure and COOKIE in request.cookies and hdrs.AUTHORIZATION not in request.headers


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _check_origin(request: web.Request) -> None:
    """Browsers name the page that a POST comes from; other clients name none."""
    origin, host = request.headers.get(hdrs.ORIGIN), request.headers.get(hdrs.HOST, "")
    if origin is not None and origin != f"{request.scheme}://{host}":
        raise RequestError(403, "the request comes from another page", "Origin", origin, f"{request.scheme}://{host}")


def _check_json(request: web.Request) -> None:
    """A form of another page cannot send JSON."""
    if request.content_type != "application/json":
        raise RequestError(400, "the body must be JSON", "Content-Type", request.content_type, "application/json")


def _bearer_token(request: web.Request) -> str:
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if cookie := request.cookies.get(COOKIE):
        return cookie
    allowed = "Bearer TOKEN; kubectl create token ACCOUNT --audience=leadsman-page makes one"
    raise RequestError(401, "a bearer token is missing", "Authorization", "", allowed)
