"""What choices mean for the cluster, and an independent check that nothing of it breaks a bound or lacks room."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources, amount_text
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import (
    Backup,
    BackupPlan,
    BackupSettings,
    FailureDomain,
    FailureDomains,
    Uncovered,
    lost_pods,
)
from leadsman.planning.optimise.choices import (
    NOWHERE,
    Choice,
    Choices,
    Load,
    PodOptions,
    Problem,
    Score,
    amounts_by_name,
    score,
)
from leadsman.planning.optimise.cluster_problem import ClusterProblem
from leadsman.planning.optimise.search import Ended, Found
from leadsman.planning.situation import Situation, counted
from leadsman.runtime.text_table import align_columns

# What choices mean for the cluster, and an independent check that nothing of it breaks a bound or lacks room.


class OptimisedPlan(Struct, frozen=True):
    """Where every bounded pod is to be.

    situation: with the pods there. moved: UIDs of those that were not there before.
    backups: of all bounded pods, and what each node reserves.
    unplaced: UID → why no node of its own keeps its bounds.
    """

    situation: Situation
    moved: frozenset[str]
    backups: BackupPlan
    unplaced: Mapping[str, str]


def plan_of_choices(modelled: ClusterProblem, choices: Choices) -> OptimisedPlan:
    """The plan that these choices are."""
    problem, situation = modelled.problem, modelled.situation
    moved: dict[str, ClusterPod | None] = {}
    backups = {uid: each for uid, each in modelled.plan.pods.items() if uid not in modelled.uids}
    unplaced: dict[str, str] = {}
    for uid, pod, choice in zip(modelled.uids, problem.pods, choices, strict=True):
        if choice.place not in (NOWHERE, pod.home):
            moved[uid] = replace(situation.cluster.pods[uid], node=problem.nodes[choice.place])
    after, reserves = situation.changed(moved), _reserves(problem, choices)
    for uid, pod, choice in zip(modelled.uids, problem.pods, choices, strict=True):
        if pod.is_unplaced(choice):
            unplaced[uid] = counted(after.holding(reserves).verdict(after.cluster.pods[uid]).kinds())
        if backup := _backup(modelled, after, uid, pod, choice):
            backups[uid] = backup
    for uid, bounded in after.bounded.items():
        if uid not in modelled.uids and not bounded.terminating and (reason := _why_without_place(after, bounded)):
            unplaced[uid] = reason
    return OptimisedPlan(after, frozenset(moved), BackupPlan(backups, reserves), unplaced)


def _why_without_place(after: Situation, pod: ClusterPod) -> str:
    """Why a pod that does not choose has no place that keeps its bounds; "": it has one."""
    if not pod.node:
        return counted(after.verdict(pod).kinds())
    if pod.node not in after.cluster.nodes:
        return f"its node {pod.node} does not exist any more"
    return after.why_not_stay(pod)


def _backup(
    modelled: ClusterProblem, after: Situation, uid: str, pod: PodOptions, choice: Choice
) -> Backup | Uncovered | None:
    """None: the pod wants none, or has no node yet."""
    failing = tuple(modelled.domains[each] for each in modelled.problem.domains_survived(pod, choice.place))
    if choice.backup != NOWHERE:
        return Backup(modelled.problem.nodes[choice.backup], failing)
    if pod.is_uncovered(choice):
        return Uncovered(_why_uncovered(modelled, after, after.cluster.pods[uid], failing))
    before = modelled.plan.pods.get(uid)
    return before if isinstance(before, Uncovered) else None


def _why_uncovered(
    modelled: ClusterProblem, after: Situation, pod: ClusterPod, failing: tuple[FailureDomain, ...]
) -> str:
    """failing: what the pod is to survive; (): the rack or zone of its node is unknown."""
    domains = modelled.failure_domains
    if not failing:
        scope = domains.survived_by(modelled.scope_of(pod), pod.node)
        return scope.reason if isinstance(scope, Uncovered) else ""
    refused: dict[str, str] = {}
    for domain in failing:
        nodes = domains.failure(domain).nodes
        refused |= dict.fromkeys(nodes, f"in the {domain.scope} that fails")
        refused |= after.failed(nodes).verdict(pod).kinds(but=refused)
    room = (node for node in after.cluster.nodes if node not in refused)
    return counted(refused | dict.fromkeys(room, "room for it is not free"))


def _reserves(problem: Problem, choices: Choices) -> dict[str, Resources]:
    """Node → what it reserves, without nodes that reserve nothing."""
    load, reserves = Load.of(problem, choices), dict[str, Resources]()
    for number, node in enumerate(problem.nodes):
        amounts = {name: amount for name, amount in amounts_by_name(problem, load.reserved(number)).items() if amount}
        if amounts:
            cpu, memory, pods = (amounts.pop(name, 0) for name in ("cpu", "memory", "pods"))
            reserves[node] = Resources(cpu, memory, pods, amounts)
    return reserves


def broken(plan: OptimisedPlan, chosen: tuple[str, ...], settings: BackupSettings) -> Mapping[str, str]:
    """UID or node → what is wrong, by the code that judges placements and failures, not by the problem's numbers.

    chosen: UIDs of the pods whose place was chosen. Empty when the plan is right.
    """
    cluster, found = plan.situation.cluster, dict[str, str]()
    for node, reserve in plan.backups.reserves.items():
        if not reserve.fits(cluster.free(node)):
            found[node] = f"it reserves {reserve} and has only {cluster.free(node)}"
    for uid in chosen:
        pod = cluster.pods[uid]
        if pod.node and uid not in plan.unplaced:
            verdict = plan.situation.verdict(pod).why_not(pod.node) if uid in plan.moved else ""
            if reason := verdict or plan.situation.why_not_stay(pod):
                found[uid] = f"{pod.node}: {reason}"
    domains = FailureDomains(cluster, plan.situation.inputs, settings.rack_label)
    for domain in sorted({domain for backup in plan.backups.backups.values() for domain in backup.domains}):
        found |= lost_pods(plan.situation, domains.failure(domain), plan.backups)
    return found


# A plan for people and programs: the same bytes for the same plan.


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
