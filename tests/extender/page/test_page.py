"""The page in a real browser, in front of a real extender, at 10 nodes and at the numbers that PAGE_NODES lists."""

import asyncio
import itertools
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.browser import Tab
from tests.extender.page.walk import LARGEST_BYTES, failed, places, serious_findings
from tests.page_server import GRAFANA_URL, HOSTILE, PageUrl, page_server

VIEW_TEXT = "document.getElementById('view').innerText"

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def small(tab: Tab, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageUrl]:
    """10 nodes whose free texts are markup."""
    async with page_server(10, tmp_path_factory.mktemp("small"), hostile=True) as url:
        yield url


@pytest.fixture(autouse=True)
def no_complaints(tab: Tab) -> None:
    tab.complaints.clear()


async def walk(tab: Tab, url: PageUrl) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{url.page}/#/delays")
    assert 0 < tab.received_bytes < LARGEST_BYTES
    for place in places(url):
        await tab.go(place)
        assert (place, await failed(tab)) == (place, None)
        assert (place, await tab.evaluate("document.querySelectorAll('#view .panel').length > 0")) == (place, True)
    assert tab.complaints == []


async def test_each_view_of_10_nodes_is_drawn_by_its_deep_link_without_a_complaint(tab: Tab, small: PageUrl) -> None:
    await walk(tab, small)


@pytest.mark.parametrize("nodes", [int(number) for number in os.environ.get("PAGE_NODES", "5000").split(",")])
async def test_each_view_of_more_nodes_is_drawn_by_its_deep_link_without_a_complaint(
    tab: Tab, tmp_path: Path, nodes: int
) -> None:
    async with page_server(nodes, tmp_path) as url:
        await walk(tab, url)
        if nodes == 1000:  # At 5,000 the estimates put the 35 ms into the node's height, not its place.
            await tab.go(f"#/within/{url.nodes[0]}/10")
            outside = "document.querySelector('section[aria-label^=Beyond]')?.innerText ?? ''"
            assert url.slow_node in await tab.evaluate(outside)
        await tab.command("Page.navigate", url="about:blank")  # A page whose server ended complains in the next test.


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(tab: Tab, small: PageUrl, axe: str, scheme: str) -> None:
    await tab.size(1400, 900)
    await tab.prefer(scheme)
    await tab.navigate(f"{small.page}/#/delays")
    for place in places(small):
        await tab.go(place)
        assert (place, await serious_findings(tab, axe)) == (place, [])


async def test_markup_in_texts_of_the_cluster_is_shown_and_never_run(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/delays")
    shown = []
    for place in places(small):
        await tab.go(place)
        shown.append(await tab.evaluate("document.body.textContent"))
        assert await tab.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
    assert any(HOSTILE in text for text in shown)
    assert await tab.evaluate("document.title") != "hacked"
    assert tab.complaints == []


_HOSTILE_ANSWERS = f"""
const UNTOUCHED = new Set(["kind", "status", "basis", "next", "severity"]);
const hostile = (value, key) =>
  typeof value === "string" && !UNTOUCHED.has(key) && !/^\\d{{4}}-/.test(value) ? {json.dumps(HOSTILE)} + value
  : Array.isArray(value) ? value.map((each) => hostile(each, key))
  : value && typeof value === "object"
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, hostile(each, name)]))
  : value;
const json = Response.prototype.json;
Response.prototype.json = async function () {{ return hostile(await json.call(this)); }};
"""


async def test_markup_in_any_text_of_any_answer_is_shown_and_never_run(tab: Tab, small: PageUrl) -> None:
    """Also where the extender admits none today: names of nodes, metrics, plugins, policies; reasons and problems."""
    added = await tab.command("Page.addScriptToEvaluateOnNewDocument", source=_HOSTILE_ANSWERS)
    try:
        await tab.navigate(f"{small.page}/#/delays")
        for place in places(small):
            await tab.go(place)
            assert (place, await failed(tab)) == (place, None)
            assert HOSTILE in await tab.evaluate("document.body.textContent")
            assert await tab.evaluate("document.querySelectorAll('img, iframe, object').length") == 0
        assert await tab.evaluate("document.title") != "hacked"
        assert tab.complaints == []
    finally:
        await tab.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


_CRUSHED = """[...document.querySelectorAll('#view td')].filter(
  (td) => td.innerText.length > 30 && td.clientWidth && td.clientWidth < 100
)"""
_SEEN_TAB = """(() => {
  const box = document.querySelector('nav a[aria-current]').getBoundingClientRect();
  return box.left >= 0 && box.right <= innerWidth;
})()"""


async def test_on_a_phone_no_view_is_too_wide_no_sentence_a_column_of_words_and_the_tab_is_seen(
    tab: Tab, small: PageUrl
) -> None:
    await tab.size(390, 844, mobile=True)
    await tab.navigate(f"{small.page}/#/delays")
    for place in places(small):
        await tab.go(place)
        assert (place, await tab.evaluate("document.documentElement.scrollWidth")) == (place, 390)
        assert (place, await tab.evaluate(f"{_CRUSHED}.map((td) => td.innerText)")) == (place, [])
        assert (place, await tab.evaluate(_SEEN_TAB)) == (place, True)


async def test_a_pairs_card_has_its_last_hour_and_leads_to_grafana_for_more(tab: Tab, small: PageUrl) -> None:
    a, b = small.nodes[:2]
    await tab.navigate(f"{small.page}/#/delays/{a}/{b}")
    await tab.wait_for("document.querySelector('.spark')")
    links = await tab.evaluate("[...document.querySelectorAll('#view a[rel=noreferrer]')].map((each) => each.href)")
    assert links == [GRAFANA_URL.replace("{a}", a).replace("{b}", b)]


async def test_a_decision_shows_the_points_of_each_part_and_finds_a_refused_node_with_its_delay(
    tab: Tab, small: PageUrl
) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{small.page}/#/pods/shop/cart-6")
    assert re.search(r"nearest \d\.\d, pressure \d\.\d", await tab.evaluate(VIEW_TEXT))
    await tab.evaluate("void document.querySelector('#view input[type=search]').focus()")
    await tab.command("Input.insertText", text="a-0000")
    await tab.wait_for("document.querySelectorAll('#view tbody tr').length === 1")
    refused = await tab.evaluate("document.querySelector('#view tbody tr').innerText")
    assert re.search(r"edge-a-0000\s+refused\s+delay to edge-e-0006 over 30 ms: [\d.]+ ms from edge-e-0006", refused)


async def test_the_strip_counts_as_many_refused_nodes_as_the_decisions_list(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/pods")
    async with aiohttp.ClientSession() as session:
        decisions = await (await session.get(f"{small.page}/api/v1/decisions")).json()
    refused = sum(each["asked"] - each["passed"] for each in decisions["items"])
    await tab.navigate(f"{small.page}/#/pods")
    card = "[...document.querySelectorAll('.card')].find((each) => each.innerText.startsWith('Nodes refused'))"
    await tab.wait_for(f"{card}?.querySelector('.card-value').innerText === {json.dumps(f'{refused:,}')}")


async def test_measure_now_says_who_is_asked(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/delays/{small.nodes[0]}/{small.nodes[1]}")
    await tab.evaluate("void document.querySelector('.panel-aside button').click()")
    await tab.wait_for(f"{VIEW_TEXT}.includes('The agent of {small.nodes[0]} is asked')")


async def test_what_if_begins_with_a_node_that_exists(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/what-if")
    assert f"delay_{small.nodes[0]}:" in await tab.evaluate("document.querySelector('textarea').value")


async def test_a_page_without_its_extender_says_so_in_words_and_keeps_what_it_shows(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/nodes")
    shown = await tab.evaluate("document.querySelectorAll('#view tbody tr').length")
    await set_offline(tab, is_offline=True)
    await see(tab, is_hidden=True)
    await see(tab, is_hidden=False)
    await tab.wait_for("document.getElementById('not-live')?.innerText.includes('interrupted')")
    assert await tab.evaluate("document.querySelectorAll('#view tbody tr').length") == shown
    await set_offline(tab, is_offline=False)
    await see(tab, is_hidden=True)
    await see(tab, is_hidden=False)
    await tab.wait_for("document.getElementById('not-live') === null")


async def set_offline(tab: Tab, *, is_offline: bool) -> None:
    limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    await tab.command("Network.emulateNetworkConditions", offline=is_offline, **limits)


async def test_a_decision_that_is_made_while_the_page_is_open_appears(tab: Tab, small: PageUrl) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{small.page}/#/pods")
    pod = {"metadata": {"namespace": "shop", "name": "newcomer", "uid": "uid-new", "labels": {}}}
    async with aiohttp.ClientSession(small.scheduler) as session:
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(small.nodes)})
        async with session.post("/filter", data=body) as answer:
            answer.raise_for_status()
    await tab.wait_for("document.getElementById('view').textContent.includes('shop/newcomer')")


async def test_keys_open_views_and_walk_the_heatmap(tab: Tab, small: PageUrl) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{small.page}/#/delays")
    await tab.evaluate("void document.querySelector('.heatmap canvas').focus()")
    await tab.press("ArrowRight")
    await tab.press("ArrowRight")
    said = await tab.evaluate("document.querySelector('.heatmap [aria-live]').textContent")
    assert said.startswith(f"{small.nodes[0]} → ")
    await tab.press("Enter")
    await tab.wait_for(f"location.hash.startsWith('#/delays/{small.nodes[0]}/')")
    await tab.press("g")
    await tab.press("n")
    await tab.wait_for("location.hash === '#/nodes'")
    await tab.press("?")
    await tab.wait_for("document.querySelector('dialog').open")


async def test_keys_alone_lead_from_a_pod_to_its_node_and_to_who_is_near(tab: Tab, small: PageUrl) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{small.page}/#/delays")
    await tab.press("/")
    await tab.command("Input.insertText", text="cart-7")
    await tab.wait_for("document.querySelectorAll('#go-to li').length === 1")
    await tab.press("Enter")
    await tab.wait_for(f"location.hash === '#/pods/shop/cart-7' && {VIEW_TEXT}.includes('{small.nodes[7]}')")
    for link in (f"#/nodes/{small.nodes[7]}", f"#/within/{small.nodes[7]}/10"):
        await tab_to(tab, link)
        await tab.press("Enter")
        await tab.wait_for(f"location.hash === {json.dumps(link)} && !document.querySelector('#view[aria-busy]')")
    await tab.evaluate("void document.querySelector('#view input[type=range]').focus()")
    for _ in range(10):
        await tab.press("ArrowRight")
    await tab.wait_for(f"location.hash !== '#/within/{small.nodes[7]}/10'")


async def tab_to(tab: Tab, link: str) -> None:
    """By the Tab key, from where the focus is."""
    for _ in range(100):
        await tab.press("Tab")
        if await tab.evaluate(f"document.activeElement.hash === {json.dumps(link)}"):
            return
    raise AssertionError(f"the Tab key does not reach {link}")


async def test_a_page_that_nobody_sees_keeps_no_event_stream(tab: Tab, small: PageUrl) -> None:
    """Chromium opens six connections to a host, and pages that wait behind "Back" share them: a request waited 43 s."""
    await tab.navigate(f"{small.page}/#/what-if")
    await streams_are(small, 1)
    await see(tab, is_hidden=True)
    await streams_are(small, 0)
    await see(tab, is_hidden=False)
    await streams_are(small, 1)


async def see(tab: Tab, *, is_hidden: bool) -> None:
    await tab.evaluate(
        f"void Object.defineProperty(document, 'hidden', {{value: {json.dumps(is_hidden)}, writable: true}})"
    )
    await tab.evaluate("void document.dispatchEvent(new Event('visibilitychange'))")


async def streams_are(url: PageUrl, number: int) -> None:
    async with asyncio.timeout(60):
        while url.open_streams() != number:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0.02)


async def test_a_pasted_pod_is_decided_and_a_bad_one_is_refused_with_the_reason(tab: Tab, small: PageUrl) -> None:
    await tab.navigate(f"{small.page}/#/what-if")
    pod = (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: tried\n  labels: {{delay_{small.nodes[0]}: '12'}}\nspec: {{}}\n"
    )
    await decide(tab, pod)
    await tab.wait_for("document.querySelector('.funnel') !== null")
    await decide(tab, "[")
    await tab.wait_for("document.querySelector('#view .problem')?.hidden === false")


async def decide(tab: Tab, yaml: str) -> None:
    await tab.evaluate(f"void (document.querySelector('textarea').value = {json.dumps(yaml)})")
    await tab.evaluate("void document.querySelector('button.primary').click()")


@pytest.mark.parametrize(("scheme", "sign"), [("light", -1), ("dark", 1)])
async def test_the_color_scale_reads_by_lightness_alone(tab: Tab, small: PageUrl, scheme: str, sign: int) -> None:
    """So that it reads without telling hues apart; the farther, the more it stands out from the page."""
    await tab.prefer(scheme)
    await tab.navigate(f"{small.page}/#/delays")
    pixels = await tab.evaluate(
        "[...document.querySelector('.legend-bar').getContext('2d').getImageData(0, 0, 256, 1).data]"
    )
    lightness = [
        0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in zip(*[pixels[at::4] for at in range(3)], strict=True)
    ]
    steps = [sign * (after - before) for before, after in itertools.pairwise(lightness)]
    assert min(steps) > -0.5  # rounding of channels
    assert sign * (lightness[-1] - lightness[0]) > 150
