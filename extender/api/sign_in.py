"""How a browser shows its bearer token: once, in a form; from then on as a cookie.

The cookie is the token itself, so that every replica knows it and none keeps sessions. A script cannot read it
(HttpOnly), a connection without TLS never carries it (Secure), and it ends with the browser. SameSite=Lax: a link from
another site, as in a chat or an alert, opens the page signed in; another site's POST carries no cookie, and its Origin
is refused besides. The form needs no script, so its document admits none.

The page's button for signing out posts to SIGN_OUT_PATH, and the browser is told to forget the cookie. That needs no
right, as it must work with a token that has ended; the token itself stays what it is until it ends.
"""

import asyncio
import html
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from extender.api.access import COOKIE, AccessGuard
from extender.api.parameters import RequestError
from extender.page.bundle import sign_in_document, sign_in_policy

COOKIE_ATTRIBUTES: Final[dict[str, Any]] = {"httponly": True, "secure": True, "samesite": "Lax", "path": "/"}
"""With other ones a browser neither replaces nor forgets a cookie of its prefix."""

LONGEST_COOKIE_BYTES = 4000
"""Browsers drop a cookie of more than 4,096 with its name and attributes (RFC 6265, 6.1)."""

FORM_TIMEOUT_SECONDS = 10.0

SIGN_OUT_PATH = "/sign-out"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def sign_in(guard: AccessGuard) -> Middleware:
    """Answers a browser that may not read "/" with the form, takes the token that the form sends there, and has the
    cookie forgotten."""

    @web.middleware
    async def signing_in(request: web.Request, handler: _Handler) -> web.StreamResponse:
        if (request.method, request.path) == ("POST", SIGN_OUT_PATH):
            return _signed_out(request, guard)
        if request.path != "/":
            return await handler(request)
        try:
            return await (_signed_in(request, guard) if request.method == "POST" else handler(request))
        except RequestError as error:
            return _form(error, is_first=request.method != "POST" and COOKIE not in request.cookies)

    return signing_in


async def _signed_in(request: web.Request, guard: AccessGuard) -> web.Response:
    try:
        async with asyncio.timeout(FORM_TIMEOUT_SECONDS):
            token = str((await request.post()).get("token", "")).strip()
    except TimeoutError as error:
        raise RequestError(408, f"the form did not arrive within {FORM_TIMEOUT_SECONDS:g} s") from error
    if not token or len(token.encode()) > LONGEST_COOKIE_BYTES:
        raise RequestError(
            400,
            f"a token has 1 to {LONGEST_COOKIE_BYTES} bytes here, not {len(token.encode())}; longer ones are taken in"
            " the header Authorization",
        )
    await guard.check_sign_in(request, token)
    response = web.Response(status=303, headers={hdrs.LOCATION: "/", hdrs.CACHE_CONTROL: "no-store"})
    response.set_cookie(COOKIE, token, **COOKIE_ATTRIBUTES)
    return response


def _signed_out(request: web.Request, guard: AccessGuard) -> web.Response:
    guard.check_own_page(request)
    response = web.Response(status=204, headers={hdrs.CACHE_CONTROL: "no-store"})
    response.set_cookie(COOKIE, "", max_age=0, **COOKIE_ATTRIBUTES)
    return response


def _form(error: RequestError, *, is_first: bool) -> web.Response:
    """is_first: nothing was shown yet that could be refused."""
    reason = "" if is_first and error.status == 401 else f"{error.status}: {error}"
    headers = {
        hdrs.CACHE_CONTROL: "no-store",
        "Content-Security-Policy": sign_in_policy(),
        # no-referrer would take the Origin from the form's POST (https://fetch.spec.whatwg.org/#origin-header).
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    if error.status == 401:
        headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
    text = sign_in_document().replace("{reason}", html.escape(reason))
    return web.Response(status=error.status, text=text, content_type="text/html", headers=headers)
