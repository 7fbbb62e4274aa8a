"""One browser for the module that asks for it, and axe-core where it is installed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.browser import MISSING, Tab, find_browser, open_tab

AXE_FILE = Path(__file__).parents[3] / ".venv/axe/node_modules/axe-core/axe.min.js"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def tab() -> AsyncIterator[Tab]:
    if find_browser() is None:
        pytest.skip(MISSING)
    async with open_tab() as one:
        yield one


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's one file (https://github.com/dequelabs/axe-core), which looks for what keeps people out."""
    if not AXE_FILE.exists():
        pytest.skip("needs axe-core: npm install --prefix .venv/axe axe-core@4")
    return AXE_FILE.read_text("utf-8")
