"""The rewards demo's table. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.runtime.text_table import align_columns

HEADER = ["NODE", "FAULT", "CRASHES", "REWARD", "BLAME", "SCORE", "LATER PODS", "OF THE LAST 40"]


class RewardsRow(Struct, frozen=True):
    """One node.

    reward, blame: 0..1, as the extender explains them; None: unknown.
    score: the extender's answer, 0..10.
    placed: number of later pods that went here.
    recent_share: this node's share of the last ones, 0..1.
    """

    node: str
    fault: str
    crashes: int
    reward: float | None
    blame: float | None
    score: int
    placed: int
    recent_share: float


def render(rows: Sequence[RewardsRow]) -> str:
    return "\n".join(align_columns([HEADER, *map(_cells, rows)]))


def fault_text(period: float | None, was: float | None, compressed: float) -> str:
    """The fault in the experiment's own seconds, before compression."""
    if period is not None:
        return f"crash every {period * compressed:g} s"
    return "none" if was is None else "repaired"


def share_placed_on(nodes: Mapping[str, int], among: Sequence[str]) -> float:
    """Share of all placed pods that went to `among`, 0..1."""
    return sum(nodes.get(node, 0) for node in among) / max(1, sum(nodes.values()))


def _cells(row: RewardsRow) -> list[str]:
    known = ["-" if value is None else f"{value:.2f}" for value in (row.reward, row.blame)]
    return [row.node, row.fault, str(row.crashes), *known, str(row.score), str(row.placed), f"{row.recent_share:.0%}"]
