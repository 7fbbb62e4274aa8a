"""The page in a real browser, in front of a real extender, at 10 nodes and at the numbers that PAGE_NODES lists."""

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.browser import Tab
from tests.extender.page.conftest import DESK, PHONE, Show
from tests.page_server import GRAFANA_URL, HOSTILE, PageUrl, page_server

_SERIOUS = """
axe.run(document, {resultTypes: ["violations"]}).then((result) => result.violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 160)}: ${node.failureSummary}`)))
"""


def places(url: PageUrl) -> Sequence[str]:
    """Every kind of view by its deep link."""
    first, last = url.nodes[0], url.nodes[-1]
    return (
        "#/delays",
        "#/delays/tile/zone-b/zone-c",
        "#/delays/change",
        "#/delays/lost",
        f"#/delays/{first}/{url.nodes[1]}",
        f"#/delays/{first}/{last}",
        f"#/within/{first}/10",
        "#/pods",
        "#/pods/shop/cart-2",
        "#/pods/shop/cart-3",
        "#/what-if",
        "#/nodes",
        f"#/nodes/{url.slow_node}",
        "#/rewards",
        "#/health",
    )


async def failed(tab: Tab) -> str | None:
    """What the page says where it could not show a view."""
    message: str | None = await tab.evaluate("document.querySelector('#view .failure')?.innerText ?? null")
    return message


async def serious_findings(tab: Tab, axe: str) -> Any:
    """What axe-core calls serious or critical in the view as it is."""
    if not await tab.evaluate("typeof axe === 'object'"):
        await tab.evaluate(f"{axe}; undefined")
    return await tab.evaluate(_SERIOUS)


VIEW_TEXT = "document.getElementById('view').innerText"
MARKUP = "document.querySelectorAll('img, iframe, object').length"
A, B = "edge-a-0000", "edge-f-0007"
"""The link without a reply."""

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="session")]


_CRUSHED = """[...document.querySelectorAll('#view td')].filter(
  (td) => td.innerText.length > 30 && td.clientWidth && td.clientWidth < 100
).map((td) => td.innerText)"""
_SEEN_TAB = """(() => {
  const box = document.querySelector('nav a[aria-current]').getBoundingClientRect();
  return box.left >= 0 && box.right <= innerWidth;
})()"""


async def test_each_view_is_drawn_by_its_deep_link_runs_no_markup_reads_in_both_themes_and_fits_a_phone(
    tab: Tab, small: PageUrl, shows: Show, axe: str
) -> None:
    """One visit a view: what axe calls serious, in light and dark; on a phone no view is too wide, no sentence a column
    of words, and the tab of the view is seen."""
    await tab.navigate(f"{small.page}/#/delays")
    for place in places(small):
        await shows(place)
        assert (place, await failed(tab)) == (place, None)
        assert (place, await tab.evaluate("document.querySelectorAll('#view .panel').length > 0")) == (place, True)
        assert (place, await tab.evaluate(MARKUP)) == (place, 0)
        for scheme in ("dark", "light") if axe else ():
            await tab.prefer(scheme)
            assert (place, scheme, await serious_findings(tab, axe)) == (place, scheme, [])
        await tab.size(*PHONE, mobile=True)
        assert (place, await tab.evaluate("document.documentElement.scrollWidth")) == (place, PHONE[0])
        assert (place, await tab.evaluate(_CRUSHED)) == (place, [])
        assert (place, await tab.evaluate(_SEEN_TAB)) == (place, True)
        await tab.size(*DESK)
    assert await tab.evaluate("document.title") != "hacked"
    assert tab.complaints == []
    if not axe:
        pytest.skip("all but axe-core's findings passed: npm install --prefix .venv/axe axe-core@4")


@pytest.mark.parametrize("nodes", [int(number) for number in os.environ.get("PAGE_NODES", "200").split(",")])
async def test_each_view_of_more_nodes_is_drawn_by_its_deep_link_without_a_complaint(
    tab: Tab, tmp_path: Path, nodes: int
) -> None:
    async with page_server(nodes, tmp_path) as url:
        await tab.navigate(f"{url.page}/#/delays")
        assert 0 < tab.received_bytes < 2_000_000
        tab.complaints.clear()
        for place in places(url):
            await tab.go(place)
            assert (place, await failed(tab)) == (place, None)
        if nodes <= 1000:  # At 5,000 the estimates put the 35 ms into the node's height, not its place.
            await tab.go(f"#/within/{url.nodes[0]}/10")
            outside = "document.querySelector('section[aria-label^=Beyond]')?.innerText ?? ''"
            assert url.slow_node in await tab.evaluate(outside)
        assert tab.complaints == []
        await tab.command("Page.navigate", url="about:blank")  # A page whose server ended complains in the next test.


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


async def test_markup_in_any_text_of_any_answer_is_shown_and_never_run(tab: Tab, small: PageUrl, shows: Show) -> None:
    """Also where the extender admits none today: names of nodes, metrics, plugins, policies; reasons and problems."""
    added = await tab.command("Page.addScriptToEvaluateOnNewDocument", source=_HOSTILE_ANSWERS)
    try:
        await tab.navigate(f"{small.page}/#/delays")
        for place in places(small):
            await tab.go(place)
            assert (place, await failed(tab)) == (place, None)
            assert HOSTILE in await tab.evaluate("document.body.textContent")
            assert await tab.evaluate(MARKUP) == 0
        assert await tab.evaluate("document.title") != "hacked"
        assert tab.complaints == []
    finally:
        await tab.command("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
        await tab.command("Page.navigate", url="about:blank")


async def test_a_dead_link_and_a_slow_node_are_named_in_words_above_the_map_on_a_phone(
    tab: Tab, small: PageUrl, shows: Show
) -> None:
    await shows("#/delays")
    for text in (f"{A} → {B}: no reply, 0 of 30", f"{small.slow_node} is 3"):
        await tab.wait_for(f"{VIEW_TEXT}.includes({json.dumps(text)})")
    await tab.size(*PHONE, mobile=True)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    assert await tab.evaluate(f"{top.format('.findings')} < {top.format('.heatmap')}")


@pytest.mark.parametrize("place", ["#/delays", "#/nodes", "#/health"])
async def test_a_view_tells_times_in_the_readers_own_zone_as_the_cards_do(
    tab: Tab, small: PageUrl, shows: Show, place: str
) -> None:
    await tab.command("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    try:
        await shows(place)
        since = "document.getElementById('{}').innerText.match(/since (\\d\\d:\\d\\d.*)/)?.[1]"
        await tab.wait_for(f"{since.format('strip')} && {since.format('view')} === {since.format('strip')}")
    finally:
        await tab.command("Emulation.setTimezoneOverride", timezoneId="")


async def test_a_pairs_card_has_its_last_hour_and_leads_to_grafana_for_more(
    tab: Tab, small: PageUrl, shows: Show
) -> None:
    a, b = small.nodes[:2]
    await shows(f"#/delays/{a}/{b}")
    await tab.wait_for("document.querySelector('.spark')")
    links = await tab.evaluate("[...document.querySelectorAll('#view a[rel=noreferrer]')].map((each) => each.href)")
    assert links == [GRAFANA_URL.replace("{a}", a).replace("{b}", b)]
    await tab.evaluate("void document.querySelector('.panel-aside button').click()")
    await tab.wait_for(f"{VIEW_TEXT}.includes('The agent of {a} is asked')")


async def test_a_decision_shows_the_points_of_each_part_and_finds_a_refused_node_with_its_delay(
    tab: Tab, shows: Show
) -> None:
    await shows("#/pods/shop/cart-6")
    assert re.search(r"nearest \d\.\d, pressure \d\.\d", await tab.evaluate(VIEW_TEXT))
    await tab.evaluate("void document.querySelector('#view input[type=search]').focus()")
    await tab.command("Input.insertText", text="a-0000")
    await tab.wait_for("document.querySelectorAll('#view tbody tr').length === 1")
    refused = await tab.evaluate("document.querySelector('#view tbody tr').innerText")
    assert re.search(r"edge-a-0000\s+refused\s+delay to edge-e-0006 over 30 ms: [\d.]+ ms from edge-e-0006", refused)


async def test_a_page_without_its_extender_says_so_in_words_and_keeps_what_it_shows(tab: Tab, shows: Show) -> None:
    await shows("#/nodes")
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


async def test_a_decision_that_is_made_while_the_page_is_open_appears(tab: Tab, small: PageUrl, shows: Show) -> None:
    """A request that failed meanwhile marks the page as old until the next change is shown, and no longer."""
    await shows("#/pods")
    await tab.evaluate("void ((ask) => { fetch = () => (fetch = ask, Promise.reject(new TypeError())); })(fetch)")
    await ask_about(small, "first")
    await tab.wait_for("document.getElementById('not-live')?.innerText.includes('does not answer')")
    await ask_about(small, "newcomer")
    await tab.wait_for("document.getElementById('view').textContent.includes('shop/newcomer')")
    await tab.wait_for("document.querySelector('.live.on')")


async def ask_about(url: PageUrl, name: str) -> None:
    """As kube-scheduler does."""
    pod = {"metadata": {"namespace": "shop", "name": name, "uid": f"uid-{name}", "labels": {}}}
    async with aiohttp.ClientSession(url.scheduler) as session:
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(url.nodes)})
        async with session.post("/filter", data=body) as answer:
            answer.raise_for_status()


async def test_keys_alone_lead_from_a_pod_to_its_node_and_to_who_is_near(tab: Tab, small: PageUrl, shows: Show) -> None:
    await shows("#/delays")
    await tab.press("/")
    await tab.wait_for("document.activeElement.matches('.go-to input')")
    await tab.command("Input.insertText", text="cart-7")
    await tab.wait_for("document.querySelectorAll('#go-to li').length === 1")
    await tab.press("Enter")
    node = small.nodes[7]
    await tab.wait_for(f"location.hash === '#/pods/shop/cart-7' && {VIEW_TEXT}.includes('{node}')")
    for link in (f"#/nodes/{node}", f"#/within/{node}/10"):
        await tab_to(tab, link)
        await tab.press("Enter")
        await tab.wait_for(f"location.hash === {json.dumps(link)} && !document.querySelector('#view[aria-busy]')")
    async with asyncio.timeout(90):  # As in `tab_to`, a view that is drawn meanwhile takes the focus away.
        while await tab.evaluate("location.hash") == f"#/within/{node}/10":
            await tab.evaluate("void document.querySelector('#view input[type=range]')?.focus()")
            await tab.press("ArrowRight")


async def tab_to(tab: Tab, link: str) -> None:
    """By the Tab key, from where the focus is; a view that is drawn meanwhile takes it back to the beginning."""
    async with asyncio.timeout(90):
        while not await tab.evaluate(f"document.activeElement?.hash === {json.dumps(link)}"):
            await tab.press("Tab")


async def test_a_page_that_nobody_sees_keeps_no_event_stream(tab: Tab, small: PageUrl, shows: Show) -> None:
    """Chromium opens six connections to a host, and pages that wait behind "Back" share them: a request waited 43 s."""
    await tab.navigate(f"{small.page}/#/what-if")
    await streams_are(small, 1)
    for is_hidden in (True, False):
        await see(tab, is_hidden=is_hidden)
        await streams_are(small, not is_hidden)


async def streams_are(url: PageUrl, number: int) -> None:
    async with asyncio.timeout(60):
        while url.open_streams() != number:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0.02)


async def see(tab: Tab, *, is_hidden: bool) -> None:
    """A page that is seen has its own word for it again, or it would keep its stream when the next one is opened."""
    hide = "Object.defineProperty(document, 'hidden', {value: true, configurable: true})"
    await tab.evaluate(f"void ({hide if is_hidden else 'delete document.hidden'})")
    await tab.evaluate("void document.dispatchEvent(new Event('visibilitychange'))")


async def test_a_pasted_pod_is_decided_and_a_bad_one_is_refused_with_the_reason_alone(
    tab: Tab, small: PageUrl, shows: Show
) -> None:
    await shows("#/what-if")
    await tab.wait_for(f"document.querySelector('textarea').value.includes('delay_{small.nodes[0]}:')")
    labels = f"{{delay_{small.nodes[0]}: '12', delay_no: '1'}}"
    await decide(tab, f"kind: Pod\nmetadata: {{name: tried, labels: {labels}}}\n")
    await tab.wait_for(f"{VIEW_TEXT}.includes('no such node no')")
    await decide(tab, "[")
    await tab.wait_for("document.querySelector('#view .problem')?.hidden === false")
    assert await tab.evaluate("document.querySelector('.funnel')") is None, "the last pod's decision is gone"


async def decide(tab: Tab, yaml: str) -> None:
    await tab.evaluate(f"void (document.querySelector('textarea').value = {json.dumps(yaml)})")
    await tab.evaluate("void document.querySelector('button.primary').click()")
