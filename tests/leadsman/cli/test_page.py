"""`leadsman page` on real sockets: who gets in, and what goes on to the extender."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import hdrs, web
from msgspec import Struct

from leadsman.cli.main import main
from leadsman.cli.page_proxy import PageProxy, PageUnavailable, Upstream
from leadsman.runtime.http_server import serve, track_request
from leadsman.testbed.etcd import free_ports


class Page(Struct):
    """A proxy in front of an extender that keeps the headers it got. session: a browser, with its own cookies."""

    session: aiohttp.ClientSession
    proxy: PageProxy
    port: int
    received: list[web.Request]

    async def status(self, path: str, method: str = "GET", **headers: str) -> int:
        async with self.session.request(method, path, headers=headers, allow_redirects=False) as response:
            return response.status

    async def enter(self) -> int:
        return await self.status(f"/?token={self.proxy.token}")


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    received = list[web.Request]()

    async def answer(request: web.Request) -> web.Response:
        received.append(request)
        headers = {"Content-Security-Policy": "default-src 'none'", hdrs.ETAG: '"1"', "Set-Cookie": "no=1"}
        return web.Response(text=f"{request.method} {request.path_qs}", headers=headers)

    extender = web.Application(middlewares=[track_request])
    extender.router.add_route("*", "/{path:.*}", answer)
    jar = aiohttp.CookieJar(unsafe=True)  # Keeps cookies of an address without a name, as browsers do.
    async with serve(extender, "127.0.0.1", 0) as behind:
        proxy = PageProxy(Upstream(f"http://127.0.0.1:{behind}", lambda: "of-the-cluster"))
        async with (
            serve(proxy.app(), "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar) as session,
        ):
            yield Page(session, proxy, port, received)


async def test_without_the_token_nothing_is_served(page: Page) -> None:
    assert await page.status("/") == 403
    assert await page.status("/?token=guessed") == 403
    assert page.received == []


async def test_the_token_lets_one_browser_in_once(page: Page) -> None:
    assert await page.enter() == 303
    assert await page.status("/api/v1/nodes?limit=3") == 200
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{page.port}") as second,
        second.get(f"/?token={page.proxy.token}", allow_redirects=False) as response,
    ):
        assert response.status == 403


async def test_the_cookie_is_no_other_pages_and_no_scripts(page: Page) -> None:
    async with page.session.get(f"/?token={page.proxy.token}", allow_redirects=False) as response:
        cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


async def test_the_extender_gets_the_clusters_token_and_no_cookie(page: Page) -> None:
    await page.enter()
    await page.status("/api/v1/nodes?limit=3", Authorization="Bearer of-the-browser")
    (request,) = page.received
    assert request.path_qs == "/api/v1/nodes?limit=3"
    assert request.headers[hdrs.AUTHORIZATION] == "Bearer of-the-cluster"
    assert hdrs.COOKIE not in request.headers


async def test_what_the_extender_says_of_its_page_reaches_the_browser(page: Page) -> None:
    await page.enter()
    async with page.session.get("/") as response:
        assert await response.text() == "GET /"
        assert response.headers["Content-Security-Policy"] == "default-src 'none'"
        assert "Set-Cookie" not in response.headers


async def test_a_post_must_come_from_the_page_itself(page: Page) -> None:
    await page.enter()
    assert await page.status("/api/v1/measure", "POST") == 403
    assert await page.status("/api/v1/measure", "POST", Origin="http://evil.example") == 403
    assert await page.status("/api/v1/measure", "POST", Origin=f"http://127.0.0.1:{page.port}") == 200


async def test_a_request_for_another_host_is_refused(page: Page) -> None:
    await page.enter()
    assert await page.status("/", Host=f"evil.example:{page.port}") == 403


async def test_an_extender_that_is_away_is_said_so() -> None:
    proxy = PageProxy(Upstream("http://127.0.0.1:1"))
    async with (
        serve(proxy.app(), "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
        session.get(f"/?token={proxy.token}") as response,
    ):
        assert response.status == 502
        assert "cannot be reached" in await response.text()


def test_an_extender_that_nobody_reaches_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert main(["page", "--url", f"http://127.0.0.1:{port}"]) == 1
    assert f"the extender's page at http://127.0.0.1:{port} cannot be reached: " in capsys.readouterr().err


async def test_a_refusal_of_the_extender_is_told_with_its_words() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=401, text="no token; give --token-file")

    extender = web.Application(middlewares=[track_request])
    extender.router.add_get("/{path:.*}", refuse)
    async with serve(extender, "127.0.0.1", 0) as behind:
        proxy = PageProxy(Upstream(f"http://127.0.0.1:{behind}"))
        async with serve(proxy.app(), "127.0.0.1", 0):
            with pytest.raises(PageUnavailable, match="refuses with 401: no token; give --token-file"):
                await proxy.check()


async def test_an_extender_that_answers_passes_the_check(page: Page) -> None:
    await page.proxy.check()
    assert page.received[-1].headers[hdrs.AUTHORIZATION] == "Bearer of-the-cluster"
