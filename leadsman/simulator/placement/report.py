"""A comparison for people and programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from leadsman.runtime.text_table import align_columns
from leadsman.simulator.placement.outcome import Outcome
from leadsman.simulator.placement.placement import Placement

HEADER = ("POLICY", "ACCEPTED %", "RESERVE %", "LOST %", "LOST OF COVERED %", "MOVES", "SECONDS", "REMARK")


def as_text(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    """A line for each policy, its runs taken together."""
    rows: list[tuple[str, ...]] = [HEADER]
    for name, runs in outcomes.items():
        shares = (f"{100 * share:.1f}" for share in shares_of(runs).values())
        moves, seconds = sum(run.moves for run in runs) / len(runs), sum(run.seconds for run in runs) / len(runs)
        remark = runs[0].remark if len(runs) == 1 else ""
        rows.append((name, *shares, f"{moves:g}", f"{seconds:.1f}", remark))
    return "\n".join(align_columns(rows)) + "\n"


def as_builtins(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """For JSON: the shares of all runs together, and each run."""
    return {name: _policy(runs) for name, runs in outcomes.items()}


def places_of(placement: Placement) -> dict[str, dict[str, str]]:
    """Pod → its node and its backup; "": it has none."""
    backups = placement.backups.backups
    return {
        f"{pod.namespace}/{pod.name}": {"node": pod.node, "backup": backups[uid].node if uid in backups else ""}
        for uid, pod in placement.cluster.pods.items()
    }


def _policy(runs: Sequence[Outcome]) -> dict[str, Any]:
    return {**shares_of(runs), "runs": [asdict(run) for run in runs]}


def shares_of(runs: Sequence[Outcome]) -> dict[str, float]:
    """Of all runs together: the accepted of the waiting pods, the reserve of the memory of pods that it is for, the
    lost of the falling pods, and the lost of those that had a backup."""
    return {
        "accepted": sum(run.accepted for run in runs) / max(sum(run.pods for run in runs), 1),
        "reserved": sum(run.reserved_bytes for run in runs) / max(sum(run.pod_bytes for run in runs), 1),
        "lost": sum(run.lost for run in runs) / max(sum(run.falling for run in runs), 1),
        "lost_of_covered": sum(run.lost_covered for run in runs) / max(sum(run.covered for run in runs), 1),
    }
