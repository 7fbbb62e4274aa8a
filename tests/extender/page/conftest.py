"""One browser and one extender with 10 nodes for all tests of the page that a worker runs, and axe-core where it is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.browser import MISSING, Tab, find_browser, open_tab
from tests.page_server import PageUrl, page_server

AXE_FILE = Path(__file__).parents[3] / ".venv/axe/node_modules/axe-core/axe.min.js"
DESK, PHONE = (1400, 900), (390, 844)

Show = Callable[[str], Awaitable[None]]


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def tab() -> AsyncIterator[Tab]:
    if find_browser() is None:
        pytest.skip(MISSING)
    async with open_tab() as one:
        yield one


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def small(tab: Tab, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PageUrl]:
    """10 nodes whose free texts are markup, one that moved away, and one link without a reply."""
    async with page_server(10, tmp_path_factory.mktemp("small"), hostile=True) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def shows(tab: Tab, small: PageUrl) -> Show:
    """shows(place): opens a place on a desk's screen; the page is loaded only where it is not there yet."""
    tab.complaints.clear()
    await tab.size(*DESK)
    await tab.prefer("light")

    async def show(place: str) -> None:
        if await tab.evaluate("location.origin") == small.page and not await tab.evaluate("document.hidden"):
            await tab.go(place)
        else:
            await tab.navigate(f"{small.page}/{place}")

    return show


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's one file (https://github.com/dequelabs/axe-core), which looks for what keeps people out; "": none."""
    return AXE_FILE.read_text("utf-8") if AXE_FILE.exists() else ""
