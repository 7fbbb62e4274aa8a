"""Which requests the API answers: those that a process of its pod or a forwarded port sends for loopback.

No token is asked for, since nobody else reaches the listener. What a page elsewhere could have the operator's own
browser send is refused: a request for another host's name that leads to a loopback address (DNS rebinding), and a POST
that a browser says another page made (https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header), or that is no JSON,
as a form's is not.
"""

from urllib.parse import urlsplit

from aiohttp import hdrs, web

from extender.api.parameters import RequestError
from leadsman.runtime.token_bucket import TokenBucket

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")

POSTS_PER_SECOND, POSTS_AT_ONCE = 1.0, 5


class RequestGuard:
    """Checks each request before it is handled, and lets few POSTs through: they cost a decision or a measurement."""

    def __init__(self) -> None:
        self._posts = TokenBucket(POSTS_PER_SECOND, POSTS_AT_ONCE)

    def check(self, request: web.Request) -> None:
        """RequestError when the request may not be answered."""
        _check_host(request)
        if request.method in ("GET", "HEAD"):
            return
        _check_sender(request)
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


def _check_sender(request: web.Request) -> None:
    """Browsers say whether the page itself sends a request, also through a proxy; other clients say nothing."""
    sender = request.headers.get("Sec-Fetch-Site", "same-origin")
    if sender != "same-origin":
        raise RequestError(403, "the request comes from another page", "Sec-Fetch-Site", sender, "same-origin")
