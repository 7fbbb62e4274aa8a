"""The pictures of the page in the docs: each view of an invented cluster, in a real browser.

    python -m tests.extender.page.pictures [NAME ...]

draws all of docs/pictures, or those named. It is afternoon in them, whatever the clock says.
"""

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from tests.browser import Tab, open_tab
from tests.page_server import page_server

FOLDER = Path(__file__).parents[3] / "docs/pictures"
SHOWN_HOUR = 14
DESK, PHONE = (1280, 860), (390, 844)


class Picture(Struct, frozen=True):
    """nodes: of the cluster. place: of the page. size: in pixels."""

    nodes: int
    place: str
    scheme: str = "light"
    size: tuple[int, int] = DESK


PICTURES: Mapping[str, Picture] = {
    "delays-10": Picture(10, "#/delays"),
    "pod": Picture(10, "#/pods/shop/cart-6"),
    "phone-dark": Picture(10, "#/delays", "dark", PHONE),
    "waits-phone": Picture(10, "#/pods/shop/waits", "light", PHONE),
    "rewards": Picture(10, "#/rewards"),
    "within-dark": Picture(100, "#/within/edge-a-0000/12", "dark"),
    "delays-1000": Picture(1000, "#/delays"),
}
"""By their file names."""


async def draw(names: Sequence[str]) -> None:
    def size(name: str) -> int:
        return PICTURES[name].nodes

    for nodes, group in itertools.groupby(sorted(names, key=size), size):
        with tempfile.TemporaryDirectory() as folder:
            async with page_server(nodes, Path(folder)) as url, open_tab() as tab:
                for name in group:
                    await _draw(tab, url.page, name)


async def _draw(tab: Tab, url: str, name: str) -> None:
    picture = PICTURES[name]
    ahead = SHOWN_HOUR - datetime.now(UTC).hour
    await tab.command("Emulation.setTimezoneOverride", timezoneId=f"Etc/GMT{-ahead:+}")
    await tab.prefer(picture.scheme)
    await tab.size(*picture.size, mobile=picture.size == PHONE)
    await tab.navigate(f"{url}/{picture.place}")
    await tab.wait_for("document.querySelector('.live.on') && !document.querySelector('.card.loading')")
    (FOLDER / f"{name}.png").write_bytes(await tab.screenshot())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; all without one")
    given = parser.parse_args().names
    if unknown := set(given) - PICTURES.keys():
        parser.error(f"there is no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    asyncio.run(draw(given or list(PICTURES)))
