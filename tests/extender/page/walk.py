"""The places of the page, and what is checked at each."""

from collections.abc import Sequence
from typing import Any

from tests.browser import Tab
from tests.page_server import PageUrl

LARGEST_BYTES = 2_000_000

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
        "#/delays/tile/0/1",
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
