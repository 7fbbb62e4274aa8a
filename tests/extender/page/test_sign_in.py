"""Signing in with a real browser, over TLS, at the cluster's listener."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from msgspec import Struct

from extender.api import token_access
from extender.api.access import COOKIE
from leadsman.runtime.http_server import serve, track_request
from tests.browser import Tab
from tests.extender.api.conftest import certified, served, started
from tests.extender.api.reviewing_api import ReviewingApi
from tests.extender.page.walk import serious_findings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

PLACE = "#/nodes/edge-a-0001"


class Listener(Struct):
    url: str
    reviewing: ReviewingApi


@pytest_asyncio.fixture(loop_scope="module")
async def listener(tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Listener]:
    """A browser that never was here, and takes the certificate."""
    monkeypatch.setattr(token_access, "GRANTED_SECONDS", 0.0)
    await tab.command("Security.setIgnoreCertificateErrors", ignore=True)
    await tab.command("Network.clearBrowserCookies")
    reviewing = ReviewingApi()
    async with started() as api, served(api, certified(tmp_path), reviewing) as session:
        yield Listener(str(session._base_url).rstrip("/"), reviewing)
        await tab.command("Page.navigate", url="about:blank")


async def see_form(tab: Tab, url: str) -> None:
    await tab.command("Page.navigate", url="about:blank")
    await tab.command("Page.navigate", url=url)
    await tab.wait_for("document.querySelector('form') && document.readyState === 'complete'")


async def sign_in(tab: Tab, token: str) -> None:
    await tab.evaluate(
        f"void (document.querySelector('input').value = {json.dumps(token)}, document.querySelector('button').click())"
    )


async def see_page(tab: Tab, place: str = PLACE) -> None:
    await tab.wait_for(f"document.documentElement?.dataset.painted === {json.dumps(place)}")


async def test_a_browser_signs_in_at_its_deep_link_and_no_script_sees_the_token(tab: Tab, listener: Listener) -> None:
    await see_form(tab, f"{listener.url}/{PLACE}")
    tab.complaints.clear()
    await sign_in(tab, "of-a-reader")
    await see_page(tab)
    assert await tab.evaluate("document.cookie") == ""
    (kept,) = (await tab.command("Network.getCookies", urls=[listener.url]))["cookies"]
    assert (kept["name"], kept["httpOnly"], kept["secure"], kept["session"]) == (COOKIE, True, True, True)
    assert "of-a-reader" not in await tab.evaluate("document.documentElement.outerHTML + location.href")
    assert tab.complaints == []


async def test_a_refused_token_is_refused_in_the_form_with_its_reason(tab: Tab, listener: Listener) -> None:
    await see_form(tab, f"{listener.url}/#/delays")
    await sign_in(tab, "of-a-stranger")
    await tab.wait_for("document.querySelector('[role=alert]')?.textContent.includes('stranger may not get')")
    await sign_in(tab, "of-a-reader")
    await see_page(tab, "#/delays")


async def test_a_link_from_another_site_opens_the_page_signed_in(tab: Tab, listener: Listener) -> None:
    await see_form(tab, f"{listener.url}/#/delays")
    await sign_in(tab, "of-a-reader")
    await see_page(tab, "#/delays")

    async def chat_message(_: web.Request) -> web.Response:
        return web.Response(text=f'<a href="{listener.url}/{PLACE}">an alert</a>', content_type="text/html")

    chat = web.Application(middlewares=[track_request])
    chat.router.add_get("/", chat_message)
    async with serve(chat, "127.0.0.1", 0) as port:
        await tab.command("Page.navigate", url=f"http://localhost:{port}/")
        await tab.wait_for("document.querySelector('a')")
        await tab.evaluate("void document.querySelector('a').click()")
        await see_page(tab)


async def test_a_token_that_ends_is_said_so_and_a_reload_asks_for_another(tab: Tab, listener: Listener) -> None:
    await see_form(tab, f"{listener.url}/{PLACE}")
    await sign_in(tab, "of-a-reader")
    await see_page(tab)
    listener.reviewing.tokens.clear()
    await tab.go("#/policies")
    assert "no longer valid. Reload this page" in await tab.evaluate("document.getElementById('view').textContent")
    await tab.command("Page.reload")
    await tab.wait_for("document.querySelector('form [role=alert]')?.textContent.includes('does not accept')")
    assert await tab.evaluate("location.hash") == "#/policies"


SIGN_OUT = "[...document.querySelectorAll('.tools button')].find((each) => each.textContent === 'Sign out')"


async def test_a_browser_signs_out_by_keyboard_and_is_shown_the_form(tab: Tab, listener: Listener, axe: str) -> None:
    await see_form(tab, f"{listener.url}/#/delays")
    await sign_in(tab, "of-a-reader")
    await see_page(tab, "#/delays")
    await tab.wait_for(SIGN_OUT)
    assert await serious_findings(tab, axe) == []
    await tab.evaluate(f"void {SIGN_OUT}.focus()")
    await tab.press("Enter")
    await tab.wait_for("document.querySelector('form') && document.readyState === 'complete'")
    assert (await tab.command("Network.getCookies", urls=[listener.url]))["cookies"] == []


async def test_on_a_phone_the_button_for_signing_out_is_on_the_screen(tab: Tab, listener: Listener) -> None:
    await tab.size(390, 844, mobile=True)
    await see_form(tab, f"{listener.url}/#/delays")
    await sign_in(tab, "of-a-reader")
    await see_page(tab, "#/delays")
    await tab.wait_for(SIGN_OUT)
    assert await tab.evaluate("document.documentElement.scrollWidth") == 390
    assert await tab.evaluate(f"{SIGN_OUT}.getBoundingClientRect().right") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_the_form_and_a_phone_shows_it_whole(
    tab: Tab, listener: Listener, axe: str, scheme: str
) -> None:
    await tab.size(390, 844, mobile=True)
    await tab.prefer(scheme)
    await see_form(tab, f"{listener.url}/#/delays")
    await sign_in(tab, "of-nobody")
    await tab.wait_for("document.readyState === 'complete' && document.querySelector('[role=alert]').textContent")
    assert await serious_findings(tab, axe) == []
    assert await tab.evaluate("document.documentElement.scrollWidth") == 390
