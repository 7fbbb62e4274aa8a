"""The rewards demo's screen: one table, drawn again and again on a terminal. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from leadsman.runtime.text_table import align_columns

HEADER = ["NODE", "FAULT", "CRASHES", "REWARD", "BLAME", "SCORE", "LATER PODS", "OF THE LAST 40"]


class RewardsRow(Struct, frozen=True):
    """reward, blame: 0..1, as the extender explains them; None: nothing is known. score: its answer, 0..10.

    placed, lately: pods that went here, and their share of the last ones.
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
    """In the experiment's own seconds."""
    if period is not None:
        return f"crash every {period * compressed:g} s"
    return "none" if was is None else "repaired"


def share_placed_on(nodes: Mapping[str, int], among: Sequence[str]) -> float:
    """Of all that was placed, what went to `among`."""
    return sum(nodes.get(node, 0) for node in among) / max(1, sum(nodes.values()))


def _cells(row: RewardsRow) -> list[str]:
    known = ["-" if value is None else f"{value:.2f}" for value in (row.reward, row.blame)]
    return [row.node, row.fault, str(row.crashes), *known, str(row.score), str(row.placed), f"{row.recent_share:.0%}"]
