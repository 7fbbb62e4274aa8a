"""Measures how soon the page is seen: `python -m benchmarks.page [NODES…]`, needs chromium

For each size a real extender with a real etcd and invented nodes (tests/page_server.py), warm, and headless Chromium on
the same machine. Painted: from navigation until the heatmap is drawn with its data; first: until anything is drawn;
medians of five navigations without a cache. Also the bytes received, and what the console and axe-core (where it is
installed) have to say in a walk over all views.
"""

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path

from tests.browser import Tab, open_tab
from tests.extender.page.conftest import AXE_FILE
from tests.extender.page.walk import failed, places, serious_findings
from tests.page_server import PageUrl, page_server

SIZES = (10, 100, 1_000, 5_000)
ROUNDS = 5
_PAINTED = "performance.getEntriesByName('painted')[0].startTime"
_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


async def painted(tab: Tab, url: PageUrl) -> str:
    """A row of the table."""
    await tab.command("Network.setCacheDisabled", cacheDisabled=True)
    drawn, first = [], []
    for _ in range(ROUNDS):
        await tab.navigate(f"{url.page}/#/delays")
        drawn.append(await tab.evaluate(_PAINTED))
        first.append(await tab.evaluate(_FIRST_PAINT))
    return f"{statistics.median(first):8.0f}  {statistics.median(drawn):10.0f}  {tab.received_bytes:10,}"


async def walk(tab: Tab, url: PageUrl) -> str:
    """The rest of the row: complaints and findings over all views."""
    tab.complaints.clear()
    findings: list[str] = []
    for place in places(url):
        await tab.go(place)
        if failure := await failed(tab):
            tab.complaints.append(f"{place}: {failure}")
        if AXE_FILE.exists():
            findings += [f"{place}: {each}" for each in await serious_findings(tab, AXE_FILE.read_text("utf-8"))]
    for line in (*tab.complaints, *findings):
        print(f"  {line}")
    return f"{len(tab.complaints):10}  {len(findings) if AXE_FILE.exists() else 'no axe':>8}"


async def main(sizes: list[int]) -> None:
    print(" nodes  first ms  painted ms    bytes in  complaints  findings")
    for nodes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            async with page_server(nodes, Path(folder)) as url, open_tab() as tab:
                await tab.size(1400, 900)
                row = f"{nodes:6}  {await painted(tab, url)}"
                print(f"{row}  {await walk(tab, url)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=list(SIZES))
    asyncio.run(main(parser.parse_args().nodes))
