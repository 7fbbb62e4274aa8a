"""What choices mean for the cluster, and an independent check that nothing of it breaks a bound or lacks room."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.after_failure import lost_pods
from leadsman.planning.backups.domains import FailureDomains
from leadsman.planning.backups.model import Backup, BackupPlan, BackupSettings, FailureDomain, Uncovered
from leadsman.planning.optimise.cluster_problem import ClusterProblem
from leadsman.planning.optimise.problem import NOWHERE, Choice, Choices, Load, PodOptions, Problem, amounts_by_name
from leadsman.planning.situation import Situation, counted


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
