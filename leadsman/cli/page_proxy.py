"""The page on this machine: a listener on 127.0.0.1 that one browser gets into by a one-time token.

What it is asked for goes to the extender's page, with the token of the cluster where one is given. The browser never
has that token: it holds a cookie that other pages cannot read or have sent (HttpOnly, SameSite=Strict).
"""

import hmac
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import urlsplit

import aiohttp
from aiohttp import hdrs, web
from msgspec import Struct

from leadsman.runtime.http_server import track_request

MAX_BODY_BYTES = 1 << 20
CONNECT_TIMEOUT_SECONDS = 10.0
MAX_REASON_BYTES = 200

_FORWARDED = (hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE, hdrs.IF_NONE_MATCH)
_RETURNED = (
    hdrs.CACHE_CONTROL,
    hdrs.CONTENT_ENCODING,
    hdrs.CONTENT_TYPE,
    hdrs.ETAG,
    hdrs.VARY,
    "Content-Security-Policy",
    "Referrer-Policy",
    "X-Content-Type-Options",
    "X-Frame-Options",
)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageUnavailable(Exception):
    """The extender's page cannot be had: why."""


class Upstream(Struct, frozen=True):
    """The extender's page. token: read at each request; "": none is sent. tls: None: plain, or the system's CAs."""

    url: str
    token: Callable[[], str] = str
    tls: ssl.SSLContext | None = None


class PageProxy:
    """token: what the browser shows once, as ?token=."""

    def __init__(self, upstream: Upstream) -> None:
        self.token = secrets.token_urlsafe(32)
        self._unused: str | None = self.token
        self._session_key = secrets.token_urlsafe(32)
        self._upstream = upstream
        self._client: aiohttp.ClientSession | None = None

    def app(self) -> web.Application:
        app = web.Application(middlewares=[track_request], client_max_size=MAX_BODY_BYTES)
        app.cleanup_ctx.append(self._open_client)
        app.router.add_get("/{path:.*}", self._guarded(self._forward))
        app.router.add_post("/{path:.*}", self._guarded(self._forward))
        return app

    async def _open_client(self, _: web.Application) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout, trust_env=False) as self._client:
            yield

    async def check(self) -> None:
        """Asks the extender once, while the app is served. PageUnavailable."""
        assert self._client
        url = self._upstream.url
        try:
            async with self._client.get(
                f"{url}/api/v1/overview", headers=self._authorization(), ssl=self._upstream.tls or True
            ) as answer:
                if 400 <= answer.status < 500:
                    said = (await answer.read())[:MAX_REASON_BYTES].decode(errors="replace").strip()
                    raise PageUnavailable(f"{url} refuses with {answer.status}: {said}")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise PageUnavailable(f"the extender's page at {url} cannot be reached: {error}") from error

    def _guarded(self, handler: _Handler) -> _Handler:
        async def guarded(request: web.Request) -> web.StreamResponse:
            host = request.headers.get(hdrs.HOST, "")
            if urlsplit(f"//{host}").hostname not in ("127.0.0.1", "localhost"):
                return _refused("this page is served for 127.0.0.1 alone")
            if request.method == "POST" and request.headers.get(hdrs.ORIGIN) != f"http://{host}":
                return _refused("the request comes from another page")
            if "token" in request.query:
                return self._let_in(request)
            if not hmac.compare_digest(_cookie(request).encode(), self._session_key.encode()):
                return _refused("open the address that leadsman page printed; its token works once, so start it again")
            return await handler(request)

        return guarded

    def _let_in(self, request: web.Request) -> web.Response:
        if self._unused is None or not hmac.compare_digest(request.query["token"].encode(), self._unused.encode()):
            return _refused("this token is not valid, or was used already; start leadsman page again")
        self._unused = None
        response = web.Response(status=303, headers={hdrs.LOCATION: "/", hdrs.CACHE_CONTROL: "no-store"})
        response.set_cookie(_cookie_name(request), self._session_key, httponly=True, samesite="Strict", path="/")
        return response

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """As it comes, so that server-sent events arrive one by one."""
        assert self._client
        body = await request.read() if request.method == "POST" else None
        try:
            async with self._client.request(
                request.method,
                f"{self._upstream.url}{request.rel_url.raw_path_qs}",
                headers=self._headers(request),
                data=body,
                ssl=self._upstream.tls or True,
                allow_redirects=False,
            ) as answer:
                response = web.StreamResponse(status=answer.status, headers=_selected(answer.headers, _RETURNED))
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientConnectorError, TimeoutError) as error:
            return web.Response(status=502, text=f"the extender's page cannot be reached: {error}\n")

    def _headers(self, request: web.Request) -> Mapping[str, str]:
        return _selected(request.headers, _FORWARDED) | self._authorization()

    def _authorization(self) -> dict[str, str]:
        token = self._upstream.token()
        return {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}


def _selected(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def _cookie_name(request: web.Request) -> str:
    """Cookies are shared among the ports of a host: each page has its own."""
    return f"leadsman-page-{urlsplit('//' + request.headers[hdrs.HOST]).port or 80}"


def _cookie(request: web.Request) -> str:
    return request.cookies.get(_cookie_name(request), "")


def _refused(why: str) -> web.Response:
    return web.Response(status=403, text=f"{why}\n")
