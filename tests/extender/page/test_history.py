"""A pair's card and two moments, in a real browser before a real Prometheus."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.browser import Tab
from tests.extender.page.walk import serious_findings
from tests.page_server import PageUrl, invented_cluster, page_server
from tests.past_prometheus import needs_prometheus, prometheus_with, ring_series

pytestmark = [pytest.mark.integration, needs_prometheus, pytest.mark.asyncio(loop_scope="module")]

NODES = 10
VIEW = "document.getElementById('view').innerText"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageUrl]:
    folder = tmp_path_factory.mktemp("past")
    with prometheus_with(folder / "prometheus", ring_series(invented_cluster(NODES))) as prometheus:
        async with page_server(NODES, folder, prometheus=prometheus) as started:
            yield started


async def test_a_pairs_card_has_its_history_from_prometheus_over_a_span_of_choice(tab: Tab, url: PageUrl) -> None:
    await tab.navigate(f"{url.page}/#/delays/{url.nodes[0]}/{url.nodes[1]}")
    await tab.wait_for(f"{VIEW}.includes('from Prometheus, 15 s apart')")
    await tab.evaluate("void [...document.querySelectorAll('button')].find((each) => each.innerText === '7d').click()")
    await tab.wait_for(f"{VIEW}.includes('from Prometheus, the largest of each 60 min')")
    assert await tab.evaluate("location.hash.endsWith('?since=7d')")
    assert "5.50" in await tab.evaluate("document.querySelector('.spark').getAttribute('aria-label')")
    assert tab.complaints == []


async def test_a_pair_without_a_series_shows_what_the_replica_remembers_and_why(tab: Tab, url: PageUrl) -> None:
    await tab.navigate(f"{url.page}/#/delays/{url.nodes[0]}/{url.nodes[5]}?since=6h")
    await tab.wait_for(f"{VIEW}.includes('from this replica, since')")
    assert await tab.evaluate(f"{VIEW}.includes('Prometheus has no series of this pair')")
    assert await tab.evaluate("document.querySelector('[aria-pressed=true]').innerText") == "6h"


async def test_two_moments_before_the_replica_started_name_the_node_and_its_pairs(
    tab: Tab, url: PageUrl, axe: str
) -> None:
    await tab.size(1400, 900)
    await tab.navigate(f"{url.page}/#/delays/change")
    await tab.evaluate(
        "void [...document.querySelectorAll('button')].find((each) => each.innerText === '24 h').click()"
    )
    first = "document.querySelector('[aria-label^=\"Changes of {}\"] tbody tr')?.innerText"
    await tab.wait_for(f"{first.format('nodes')}.startsWith('{url.slow_node}')")
    await tab.wait_for(f"{first.format('nodes')}.includes('+35.0')")
    await tab.wait_for(f"{first.format('pairs')}.includes('{url.slow_node}')")
    await tab.wait_for(f"{VIEW}.includes('from Prometheus')")
    assert await serious_findings(tab, axe) == []
