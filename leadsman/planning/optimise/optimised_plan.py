"""Defines what choices mean for the cluster: where pods and backups are, why some have none, and what that reserves.

The plan is checked by code that knows nothing of the problem's numbers. As text and JSON it has the same bytes for the
same plan.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import Resources, amount_text
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import SCOPES, Backup, BackupPlan, BackupSettings, Uncovered, broken_promises
from leadsman.planning.backups.reserve import reserves_of
from leadsman.planning.optimise.choices import Choices, Ended, Found, Score
from leadsman.planning.optimise.cluster_problem import ClusterProblem
from leadsman.planning.situation import Situation, counted
from leadsman.runtime.text_table import align_columns


class OptimisedPlan(Struct, frozen=True):
    """Says where every bounded pod is to be.

    situation: with the pods there. moved: UIDs of those that were not there before.
    backups: of all bounded pods, and what each node reserves.
    unplaced: UID → why no node of its own keeps its bounds.
    """

    situation: Situation
    moved: frozenset[str]
    backups: BackupPlan
    unplaced: Mapping[str, str]


def plan_of_choices(modelled: ClusterProblem, choices: Choices) -> OptimisedPlan:
    """Returns the plan that these choices are."""
    problem, nodes = modelled.problem, modelled.problem.room.nodes
    moved = dict[str, ClusterPod | None]()
    backups = {uid: each for uid, each in modelled.plan.pods.items() if uid not in modelled.uids}
    for uid, pod, choice in zip(modelled.uids, problem.pods, choices, strict=True):
        if choice.place is not None and choice.place != pod.home:
            moved[uid] = replace(modelled.situation.cluster.pods[uid], node=nodes[choice.place])
        if choice.backup is not None:
            backups[uid] = Backup(nodes[choice.backup], problem.survived(pod, choice.place))
    after = modelled.situation.changed(moved)
    reserves = reserves_of(after.cluster, BackupPlan(backups).backups)
    without_backup, unplaced = _lacking(modelled, choices, after, reserves)
    return OptimisedPlan(after, frozenset(moved), BackupPlan(backups | without_backup, reserves), unplaced)


def _lacking(
    modelled: ClusterProblem, choices: Choices, after: Situation, reserves: Mapping[str, Resources]
) -> tuple[dict[str, Uncovered], dict[str, str]]:
    """UID → why it has no backup, and UID → why it has no place that keeps its bounds."""
    uncovered, unplaced = dict[str, Uncovered](), dict[str, str]()
    for uid, pod, choice in zip(modelled.uids, modelled.problem.pods, choices, strict=True):
        before = modelled.plan.pods.get(uid)
        if pod.is_unplaced(choice):
            unplaced[uid] = counted(after.holding(reserves).verdict(after.cluster.pods[uid]).kinds())
        if pod.is_uncovered(choice):
            uncovered[uid] = Uncovered(_why_uncovered(modelled, after, after.cluster.pods[uid], pod.scopes))
        elif choice.backup is None and isinstance(before, Uncovered):
            uncovered[uid] = before
    for uid, bounded in after.bounded.items():
        if uid not in modelled.uids and not bounded.terminating and (reason := _why_without_place(after, bounded)):
            unplaced[uid] = reason
    return uncovered, unplaced


def _why_without_place(after: Situation, pod: ClusterPod) -> str:
    """Says why a pod that does not choose has no place that keeps its bounds; "": it has one."""
    if not pod.node:
        return counted(after.verdict(pod).kinds())
    if pod.node not in after.cluster.nodes:
        return f"its node {pod.node} does not exist any more"
    return after.why_not_stay(pod)


def _why_uncovered(modelled: ClusterProblem, after: Situation, pod: ClusterPod, scopes: int) -> str:
    failing = modelled.failures.survived_by(SCOPES[scopes], pod.node)
    if isinstance(failing, Uncovered):
        return failing.reason
    refused: dict[str, str] = {}
    for domain in failing:
        nodes = modelled.failures.failure(domain).nodes
        refused |= dict.fromkeys(nodes, f"in the {domain.scope} that fails")
        refused |= after.failed(nodes).verdict(pod).kinds(but=refused)
    room = (node for node in after.cluster.nodes if node not in refused)
    return counted(refused | dict.fromkeys(room, "room for it is not free"))


def broken(plan: OptimisedPlan, chosen: tuple[str, ...], settings: BackupSettings) -> Mapping[str, str]:
    """Maps UIDs and nodes to what is wrong with them, by the code that judges placements and failures, not by the
    problem's numbers.

    chosen: UIDs of the pods whose place was chosen. Empty when the plan is right.
    """
    cluster = plan.situation.cluster
    found = dict(broken_promises(plan.situation, plan.backups, settings.rack_label))
    for uid in chosen:
        pod = cluster.pods[uid]
        if pod.node and uid not in plan.unplaced:
            verdict = plan.situation.verdict(pod).why_not(pod.node) if uid in plan.moved else ""
            if reason := verdict or plan.situation.why_not_stay(pod):
                found[uid] = f"{pod.node}: {reason}"
    return found


class PodLine(Struct, frozen=True):
    """Says where one bounded pod goes. moved_from: "" when it stays or is new. survives: what may fail. unplaced,
    uncovered: why."""

    pod: str
    node: str = ""
    moved_from: str = ""
    backup: str = ""
    survives: tuple[str, ...] = ()
    unplaced: str = ""
    uncovered: str = ""


class PlanReport(Struct, frozen=True):
    """A plan and what it costs.

    reserved, greedy_reserved: share of the cluster's `resources` that nodes reserve in all, the mean of several; of the
        greedy plan too.
    reserved_bound: no plan that places and covers as many pods reserves less; None: nothing is proven.
    gap: by how much of the bound the plan may be too large; None: nothing is proven.
    cut: pods that chose among some of their places and backups only. What is proven holds for such plans.
    work: what the solver used, in its own deterministic seconds.
    """

    reserved: float
    greedy_reserved: float
    reserved_bound: float | None
    gap: float | None
    cut: int
    resources: tuple[str, ...]
    moves: int
    ended: Ended
    work: float
    reserves: Mapping[str, Mapping[str, int]]
    pods: tuple[PodLine, ...]


def report_of(modelled: ClusterProblem, plan: OptimisedPlan, greedy: Score, found: Found) -> PlanReport:
    """Reports what the search found beside the greedy plan.

    greedy: the score of the greedy plan.
    """
    problem, nodes, at = modelled.problem, modelled.situation.cluster.nodes.values(), found.score
    costing = [number for number, weight in enumerate(problem.weights) if weight]
    resources = tuple(problem.room.resources[number] for number in costing)
    amounts = (sum(node.allocatable.amount(name) for node in nodes) for name in resources)
    whole = sum(problem.weights[k] * amount / problem.units[k] for k, amount in zip(costing, amounts, strict=True))
    scale = 1 / max(whole, 1.0)
    bound = found.reserved_bound
    proven = bound > 0 or found.ended is Ended.PROVEN
    return PlanReport(
        reserved=at.reserved * scale,
        greedy_reserved=greedy.reserved * scale,
        reserved_bound=bound * scale if proven else None,
        gap=round((at.reserved - bound) / max(bound, 1), 4) if proven else None,
        cut=modelled.cut,
        resources=resources,
        moves=at.moves,
        ended=found.ended,
        work=round(found.work, 6),
        reserves={node: dict(reserve.items()) for node, reserve in sorted(plan.backups.reserves.items())},
        pods=tuple(sorted(_lines(modelled.situation.cluster, plan), key=lambda line: line.pod)),
    )


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


def as_text(report: PlanReport) -> str:
    """Returns the pods, the reserves, and what they cost."""
    pods = [("POD", "NODE", "FROM", "BACKUP", "REMARK")]
    for each in report.pods:
        pods.append((each.pod, each.node, each.moved_from, each.backup, each.unplaced or each.uncovered))
    reserves = [("NODE", "RESERVES")]
    for node, amounts in report.reserves.items():
        reserves.append((node, ", ".join(amount_text(name, amount) for name, amount in amounts.items())))
    gap = "nothing is proven"
    if report.gap is not None and report.reserved_bound is not None:
        gap = f"proven bound {report.reserved_bound:.2%}, gap {report.gap:.1%}"
    of = f"of the cluster's {' and '.join(report.resources)}"
    summary = [
        f"reserved {report.reserved:.2%} {of} (greedy {report.greedy_reserved:.2%}); {gap}",
        f"{report.moves} moves; {report.ended}, {report.work:g} of the solver's deterministic seconds",
    ]
    if report.cut:
        summary.append(
            f"{report.cut} pods have too many places and backups: they chose among some of them, and what is proven"
            " holds for such plans"
        )
    return "\n".join([*align_columns(pods), "", *align_columns(reserves), "", *summary, ""])
