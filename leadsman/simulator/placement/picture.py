"""A comparison as a picture: what pods take and what is reserved of each node, and what its failure loses. SVG 1.1."""

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

from leadsman.simulator.placement.outcome import Outcome, keeping_bounds, lost_on_failure
from leadsman.simulator.placement.placement import Placement

WIDTH, PANEL_HEIGHT, BARS_HEIGHT, MARGIN = 960, 150, 100, 20
PODS, RESERVE, LOST = "#3b6ea5", "#e0a030", "#b02020"
MAX_NODES = 400
"""More would be bars thinner than two pixels: the first ones are drawn."""

MAX_SOURCE = 120
"""Characters of a line."""

_LEGEND_HEIGHT = 44


def as_svg(found: Mapping[str, tuple[Placement, Outcome]], source: str) -> str:
    """A panel for each policy, with the same nodes in the same order."""
    height = _LEGEND_HEIGHT + PANEL_HEIGHT * len(found)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif"'
        f' font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{MARGIN}" y="16">Memory of each node: {escape(source[:MAX_SOURCE])}</text>',
    ]
    x = MARGIN
    for colour, text in ((PODS, "pods"), (RESERVE, "reserved for a failure"), (LOST, "lost when the node fails")):
        lines.append(f'<rect x="{x}" y="25" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 16}" y="36">{text}</text>')
        x += 40 + 7 * len(text)
    for number, (placement, outcome) in enumerate(found.values()):
        lines.extend(_panel(placement, outcome, _LEGEND_HEIGHT + PANEL_HEIGHT * number))
    return "\n".join([*lines, "</svg>", ""])


def _panel(placement: Placement, outcome: Outcome, top: int) -> Iterator[str]:
    title = (
        f"{outcome.policy}: {outcome.accepted} of {outcome.pods} accepted, "
        f"{outcome.reserved_bytes / (1 << 30):.1f} GiB reserved, {outcome.lost} of {outcome.falling} lost"
    )
    yield f'<text x="{MARGIN}" y="{top + 16}" font-weight="bold">{escape(title)}</text>'
    nodes, bottom = list(placement.cluster.nodes)[:MAX_NODES], top + 24 + BARS_HEIGHT
    largest = max((placement.cluster.nodes[node].allocatable.memory_bytes for node in nodes), default=1)
    step, kept = (WIDTH - 2 * MARGIN) / max(len(nodes), 1), keeping_bounds(placement)
    for number, node in enumerate(nodes):
        size = placement.cluster.nodes[node].allocatable.memory_bytes
        used = placement.cluster.requested(node).memory_bytes
        reserve = placement.backups.reserves.get(node)
        reserved = reserve.memory_bytes if reserve else 0
        lost = lost_on_failure(placement, node, kept)
        gone = sum(placement.cluster.pods[uid].requests.memory_bytes for uid in lost)
        x, width = MARGIN + number * step, max(step - 1, 1)
        for start, amount, colour in (
            (0, size, "#e8e8e8"),
            (0, used, PODS),
            (0, gone, LOST),
            (used, reserved, RESERVE),
        ):
            if amount > 0:
                y, high = bottom - BARS_HEIGHT * (start + amount) / largest, BARS_HEIGHT * amount / largest
                yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{high:.1f}" fill="{colour}"/>'
