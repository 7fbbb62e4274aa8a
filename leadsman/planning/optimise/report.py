"""A plan for people and programs: the same bytes for the same plan."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.cluster.resources import amount_text
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.model import Backup, Uncovered
from leadsman.planning.optimise.answer import OptimisedPlan
from leadsman.planning.optimise.cluster_problem import ClusterProblem
from leadsman.planning.optimise.problem import Choices, Score, score
from leadsman.planning.optimise.search import Ended, Found
from leadsman.runtime.text_table import align_columns


class PodLine(Struct, frozen=True):
    """One bounded pod. moved_from: "" when it stays or is new. survives: what may fail. unplaced, uncovered: why."""

    pod: str
    node: str = ""
    moved_from: str = ""
    backup: str = ""
    survives: tuple[str, ...] = ()
    unplaced: str = ""
    uncovered: str = ""


class PlanReport(Struct, frozen=True):
    """reserved, greedy_reserved: the weighted sum that was minimised; with memory alone, units of memory_unit_bytes.
    reserved_bound: no plan that places and covers as many pods reserves less; 0: nothing is proven.
    gap: by how much of the bound the plan may be too large; None: nothing is proven.
    cut: pods that chose among some of their places and backups only. What is proven holds for such plans.
    """

    reserved: int
    greedy_reserved: int
    reserved_bound: int
    gap: float | None
    cut: int
    unit: str
    moves: int
    ended: Ended
    work: float
    reserves: Mapping[str, Mapping[str, int]]
    pods: tuple[PodLine, ...]


def report_of(
    modelled: ClusterProblem, plan: OptimisedPlan, start: Choices, choices: Choices, found: Found
) -> PlanReport:
    """start: the greedy choices. choices: those of the plan."""
    problem = modelled.problem
    at, greedy = _scored(modelled, choices), _scored(modelled, start)
    costing = [number for number, weight in enumerate(problem.weights) if weight]
    unit = "a weighted share of several resources"
    if len(costing) == 1:
        unit = amount_text(problem.resources[costing[0]], problem.units[costing[0]])
    bound = found.reserved_bound
    proven = bound > 0 or found.ended is Ended.PROVEN
    return PlanReport(
        reserved=at.reserved,
        greedy_reserved=greedy.reserved,
        reserved_bound=bound,
        gap=round((at.reserved - bound) / max(bound, 1), 4) if proven else None,
        cut=modelled.cut,
        unit=unit,
        moves=at.moves,
        ended=found.ended,
        work=round(found.work, 6),
        reserves={node: dict(reserve.items()) for node, reserve in sorted(plan.backups.reserves.items())},
        pods=tuple(sorted(_lines(modelled.situation.cluster, plan), key=lambda line: line.pod)),
    )


def _scored(modelled: ClusterProblem, choices: Choices) -> Score:
    at = score(modelled.problem, choices)
    if at is None:
        raise ValueError("the choices do not fit on their nodes")
    return at


def _lines(before: Cluster, plan: OptimisedPlan) -> list[PodLine]:
    lines = []
    for uid, pod in plan.situation.cluster.pods.items():
        if not PodInfo.of(pod).has_delay_bounds:
            continue
        backup, home = plan.backups.pods.get(uid), before.pods[uid].node
        unplaced = plan.unplaced.get(uid, "" if pod.node else "no node takes it that keeps its bounds")
        lines.append(
            PodLine(
                pod=f"{pod.namespace}/{pod.name}",
                node=pod.node,
                moved_from=home if home not in ("", pod.node) else "",
                backup=backup.node if isinstance(backup, Backup) else "",
                survives=tuple(map(str, backup.domains)) if isinstance(backup, Backup) else (),
                unplaced=unplaced,
                uncovered=backup.reason if isinstance(backup, Uncovered) else "",
            )
        )
    return lines


def as_json(report: PlanReport) -> str:
    plain = msgspec.to_builtins(report)
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def as_text(report: PlanReport) -> str:
    """The pods, the reserves, and what they cost."""
    pods = [("POD", "NODE", "FROM", "BACKUP", "REMARK")]
    for each in report.pods:
        pods.append((each.pod, each.node, each.moved_from, each.backup, each.unplaced or each.uncovered))
    reserves = [("NODE", "RESERVES")]
    for node, amounts in report.reserves.items():
        reserves.append((node, ", ".join(amount_text(name, amount) for name, amount in amounts.items())))
    gap = "nothing is proven" if report.gap is None else f"proven bound {report.reserved_bound}, gap {report.gap:.1%}"
    summary = [
        f"reserved {report.reserved} (greedy {report.greedy_reserved}) units, each {report.unit}; {gap}",
        f"{report.moves} moves; {report.ended}, {report.work:g} of the solver's work",
    ]
    if report.cut:
        summary.append(
            f"{report.cut} pods have too many places and backups: they chose among some of them, and what is proven"
            " holds for such plans"
        )
    return "\n".join([*align_columns(pods), "", *align_columns(reserves), "", *summary, ""])
