"""The form by which a browser shows its token, over TLS."""

from http.cookies import Morsel

import aiohttp
import pytest

from extender.api.access import COOKIE
from extender.api.sign_in import LONGEST_COOKIE_BYTES
from tests.extender.api.conftest import READER, Api
from tests.extender.api.reviewing_api import ReviewingApi

COOKIE_OF_READER = {"Cookie": f"{COOKIE}=of-a-reader"}


async def shown(service: aiohttp.ClientSession, token: str, **headers: str) -> tuple[int, str, Morsel[str] | None]:
    """Status, body and cookie that the form is answered with."""
    async with service.post("/", data={"token": token}, headers=headers, allow_redirects=False) as response:
        return response.status, await response.text(), response.cookies.get(COOKIE)


async def test_who_shows_no_token_gets_the_form_without_a_script(service: aiohttp.ClientSession) -> None:
    async with service.get("/") as response:
        text = await response.text()
        assert (response.status, response.content_type) == (401, "text/html")
        assert "<form" in text
        assert "<script" not in text
        assert "script-src" not in response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_a_readers_token_becomes_a_cookie_that_no_script_reads(service: aiohttp.ClientSession) -> None:
    status, _, cookie = await shown(service, "of-a-reader")
    assert status == 303
    assert cookie is not None
    attributes = {name: value for name, value in cookie.items() if value}
    assert attributes == {"httponly": True, "secure": True, "samesite": "Lax", "path": "/"}, (
        "no other host, no lifetime"
    )
    for path in ("/", "/api/v1/health"):
        async with service.get(path, headers=COOKIE_OF_READER) as response:
            assert response.status == 200


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        ("of-nobody", 401, "the API server does not accept this token"),
        ("of-a-stranger", 403, "stranger may not get /leadsman/api"),
        ("", 400, "not 0"),
        ("x" * (LONGEST_COOKIE_BYTES + 1), 400, "the header Authorization"),
    ],
)
async def test_another_token_is_refused_in_the_form_with_the_reason(
    service: aiohttp.ClientSession, token: str, status: int, reason: str
) -> None:
    answered, text, cookie = await shown(service, token)
    assert (answered, cookie) == (status, None)
    assert reason in text


async def test_a_user_whose_name_is_markup_is_shown_as_text(
    service: aiohttp.ClientSession, reviewing: ReviewingApi
) -> None:
    reviewing.tokens["of-a-script"] = {"username": "<script>alert(1)</script>"}
    _, text, _ = await shown(service, "of-a-script")
    assert "&lt;script&gt;alert(1)&lt;/script&gt; may not get" in text
    assert "<script" not in text


async def test_another_sites_form_signs_nobody_in(service: aiohttp.ClientSession) -> None:
    status, _, cookie = await shown(service, "of-a-reader", Origin="https://evil.example")
    assert (status, cookie) == (403, None)


async def test_a_post_with_the_cookie_from_another_site_is_refused(
    service: aiohttp.ClientSession, reviewing: ReviewingApi
) -> None:
    reviewing.rights.add(("reader", "post"))
    measure = {"source": "edge-a-0000", "target": "edge-a-0001"}
    for origin, status in (("https://evil.example", 403), (str(service._base_url).rstrip("/"), 202)):
        headers = COOKIE_OF_READER | {"Origin": origin}
        async with service.post("/api/v1/measure", json=measure, headers=headers) as response:
            assert response.status == status


async def test_the_header_counts_before_the_cookie(service: aiohttp.ClientSession) -> None:
    async with service.get("/api/v1/health", headers=READER | {"Cookie": f"{COOKIE}=of-nobody"}) as response:
        assert response.status == 200


async def test_nobody_signs_in_at_the_local_listener(api: Api) -> None:
    async with api.session.post("/", data={"token": "of-a-reader"}) as response:
        assert response.status == 400
        assert COOKIE not in response.cookies


async def test_signing_out_has_the_browser_forget_the_cookie(service: aiohttp.ClientSession) -> None:
    origin = str(service._base_url).rstrip("/")
    async with service.post("/sign-out", headers=COOKIE_OF_READER | {"Origin": origin}) as response:
        cookie = response.cookies[COOKIE]
        assert (response.status, cookie.value, cookie["max-age"], cookie["secure"]) == (204, "", "0", True)


async def test_an_ended_token_is_forgotten_too(service: aiohttp.ClientSession) -> None:
    async with service.post("/sign-out", headers={"Cookie": f"{COOKIE}=of-nobody"}) as response:
        assert (response.status, COOKIE in response.cookies) == (204, True)


@pytest.mark.parametrize("header", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
async def test_another_site_signs_nobody_out(service: aiohttp.ClientSession, header: dict[str, str]) -> None:
    async with service.post("/sign-out", headers=COOKIE_OF_READER | header) as response:
        assert (response.status, COOKIE in response.cookies) == (403, False)


async def test_a_link_signs_nobody_out(service: aiohttp.ClientSession) -> None:
    async with service.get("/sign-out", headers=COOKIE_OF_READER) as response:
        assert (response.status, COOKIE in response.cookies) == (404, False)


@pytest.mark.parametrize(
    ("headers", "offered"), [(COOKIE_OF_READER, True), (READER, False), (READER | COOKIE_OF_READER, False)]
)
async def test_signing_out_is_offered_to_whom_the_cookie_lets_in(
    service: aiohttp.ClientSession, headers: dict[str, str], offered: bool
) -> None:
    async with service.get("/api/v1/overview", headers=headers) as response:
        assert (await response.json())["features"]["sign_out"] is offered


async def test_the_local_listener_offers_nobody_to_sign_out(api: Api) -> None:
    _, overview = await api.get("/overview", **COOKIE_OF_READER)
    assert overview["features"]["sign_out"] is False
