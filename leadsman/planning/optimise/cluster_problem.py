"""A cluster as a Problem: which pods may choose, among which nodes, and what stays as it is.

A pod chooses when it may be judged by itself: its bounds are to nodes alone, it has no claims, its namespace has no
quota, and neither its own requirements nor those of others look from pod to pod. Every other pod keeps its node, with
the backup that plan_backups gives it; one without a node gets the one with the most free memory that takes it. Pods
that are never moved, or that keep data on their node, choose only their backup.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isqrt

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.scheduling import looks_at
from leadsman.decision.delay.bounds import NoTarget, resolve_target, valid_bounds
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, FailureDomains, scopes_of
from leadsman.planning.backups.planner import plan_backups, without_placeholders
from leadsman.planning.backups.reserve import Columns, room_of
from leadsman.planning.moves.search import why_never_moved
from leadsman.planning.optimise.choices import Choice, Choices, PodOptions, Problem
from leadsman.planning.situation import Situation, with_workloads_of, workload_key

_WEIGHT_PRECISION = 1_000
"""Weights are so many parts of the cheapest resource's unit, when several resources are reserved."""

MAX_OPTIONS = 40_000
"""All pods together may have this many options, a variable each. The relaxation of twice as many took half a minute of
CPU."""

LEAST_NODES = 8
"""Places and backups that each pod has left, however many pods there are."""


class ClusterProblem(Struct, frozen=True):
    """A problem, and what its numbers stand for.

    situation, plan: before anything is chosen: pods that do not choose have their nodes, and all that have a node the
        backups of plan_backups.
    uids: of the problem's pods, in its order. start: what they have before anything is chosen.
    failures: which nodes fail together.
    cut: how many pods have more places and backups than the problem looks at.
    """

    problem: Problem
    situation: Situation
    plan: BackupPlan
    uids: tuple[str, ...]
    start: Choices
    failures: FailureDomains
    settings: BackupSettings
    cut: int = 0


def model_cluster(situation: Situation, settings: BackupSettings) -> ClusterProblem:
    """Returns the problem of a cluster, in which the room of placeholders is free and workloads are where its pods
    are."""
    cluster = without_placeholders(situation.cluster)
    situation = situation.on(cluster, with_workloads_of(cluster, situation.inputs))
    choosing = _choosing(situation)
    situation = _settled(situation, choosing)
    cluster = situation.cluster
    plan = plan_backups(situation, settings)
    pods = [cluster.pods[uid] for uid in sorted(choosing)]
    failures = FailureDomains(cluster, situation.inputs, settings.rack_label)
    counted = [pod for pod in cluster.pods.values() if pod.uid in choosing | plan.pods.keys()]
    columns = Columns((), counted, in_units=True)
    position = {node: number for number, node in enumerate(cluster.nodes)}
    staying = situation.changed(dict.fromkeys(choosing))
    fixed = {uid: backup for uid, backup in plan.backups.items() if uid not in choosing}
    room = room_of(staying.cluster, columns, failures, fixed)
    problem = Problem(
        room=replace(room, free=room.free.clip(min=0)),
        units=tuple(columns.units.tolist()),
        weights=_weights(cluster, columns),
        pods=tuple(_options(pod, staying, settings, columns, position) for pod in pods),
    )
    backups = {uid: position[backup.node] for uid, backup in plan.backups.items()}
    start = tuple(Choice(position.get(pod.node), backups.get(pod.uid)) for pod in pods)
    problem, cut = restricted(problem, start)
    return ClusterProblem(problem, situation, plan, tuple(pod.uid for pod in pods), start, failures, settings, cut)


def _weights(cluster: Cluster, columns: Columns) -> tuple[int, ...]:
    """Returns weights by which reserving all of a resource costs the same for each; pod slots cost nothing."""
    shares = []
    for name, unit in zip(columns.names, columns.units.tolist(), strict=True):
        total = sum(node.allocatable.amount(name) for node in cluster.nodes.values())
        shares.append(0.0 if name == "pods" else unit / max(total, unit))
    cheapest = min((share for share in shares if share), default=1.0)
    precision = _WEIGHT_PRECISION if sum(share > 0 for share in shares) > 1 else 1
    return tuple(round(share / cheapest * precision) for share in shares)


def _choosing(situation: Situation) -> set[str]:
    """Returns the UIDs of the pods that may be judged by themselves."""
    cluster = situation.cluster
    bounded = [pod for pod in situation.bounded.values() if not pod.terminating]
    bounding = {key for pod in bounded for key in situation.workloads_bounding(pod)}
    constraints = {id(pod.constraints): pod for pod in cluster.pods.values() if _looks_at_pods(pod.constraints)}
    full = {node for node in cluster.nodes if any(amount < 0 for _, amount in cluster.free(node).items())}
    with_quota = {namespace for namespace, _ in cluster.quotas}
    return {
        pod.uid
        for pod in bounded
        if not (_looks_at_pods(pod.constraints) or pod.claims or pod.gated or pod.labels_cut)
        and pod.devices is None
        and pod.node not in full
        and pod.namespace not in with_quota
        and (not pod.node or pod.node in cluster.nodes)
        and workload_key(pod) not in bounding
        and _bound_to_nodes_only(pod, situation)
        and not any(looks_at(other, pod, cluster) for other in constraints.values())
    }


def _looks_at_pods(constraints: PodConstraints) -> bool:
    return bool(constraints.affinity or constraints.anti_affinity or constraints.spread or constraints.host_ports)


def _bound_to_nodes_only(pod: ClusterPod, situation: Situation) -> bool:
    info, nodes = PodInfo.of(pod), situation.cluster.nodes
    targets = [resolve_target(bound, info, nodes, situation.inputs) for bound in valid_bounds(info)]
    return bool(targets) and all(not isinstance(each, NoTarget) and each.nodes and not each.pods for each in targets)


def _settled(situation: Situation, choosing: set[str]) -> Situation:
    """Every bounded pod that does not choose and has no node gets the one with the most free memory that takes it so
    that no bound is lost."""
    waiting = [pod for pod in situation.bounded.values() if not pod.node and pod.uid not in choosing]
    for pod in sorted(waiting, key=lambda pod: (len(valid_bounds(PodInfo.of(pod))), pod.created_at, pod.uid)):
        free = situation.cluster.free
        roomiest = sorted(situation.verdict(pod).nodes, key=lambda node: (-free(node).memory_bytes, node))
        if best := next((node for node in roomiest if not situation.lost_bound({pod.uid: node})), ""):
            situation = situation.with_pod(pod, best)
    return situation


def _options(
    pod: ClusterPod, staying: Situation, settings: BackupSettings, columns: Columns, position: Mapping[str, int]
) -> PodOptions:
    """Returns the places and backups that a pod may choose.

    staying: without the pods that choose, so that only what stays takes room.
    """
    allowed = tuple(position[node] for node in staying.verdict(pod).nodes)
    home, own = position.get(pod.node), tuple(position[node] for node in filter(None, [pod.node]) if node in position)
    stays = pod.local_volumes or why_never_moved(pod)
    return PodOptions(
        requests=tuple(columns.of(pod).tolist()),
        home=home,
        home_keeps=home in allowed or (home is not None and not staying.why_not_stay(pod)),
        places=own if own and stays else tuple(sorted({*allowed, *own})),
        backups=allowed,
        scopes=scopes_of(pod, settings),
    )


def restricted(problem: Problem, start: Choices) -> tuple[Problem, int]:
    """Returns the problem with some places and backups of the pods that have too many, and how many pods those are: a
    pod that may go nearly anywhere has places times backups of them, 40,000 on 200 nodes.

    start: possible choices, which stay possible. The same problem is restricted in the same way.
    """
    most = max(LEAST_NODES, isqrt(MAX_OPTIONS // max(len(problem.pods), 1)))
    wanted_by = Counter(node for pod in problem.pods for node in pod.backups)
    free = problem.room.free.tolist()
    roomy_first = sorted(range(len(free)), key=lambda node: ([-amount for amount in free[node]], node))
    shared_first = sorted(range(len(free)), key=lambda node: (-wanted_by[node], node))
    pods, cut = [], 0
    for number, (pod, has) in enumerate(zip(problem.pods, start, strict=True)):
        if len(pod.places) * (len(pod.backups) if pod.scopes else 1) <= most**2:
            pods.append(pod)
            continue
        cut += 1
        at = number % len(roomy_first)
        pods.append(_cut(pod, has, most, [*roomy_first[at:], *roomy_first[:at]], shared_first))
    return replace(problem, pods=tuple(pods)), cut


def _cut(pod: PodOptions, has: Choice, most: int, spread: Sequence[int], shared_first: Sequence[int]) -> PodOptions:
    """Cuts a pod's options down to `most` places, and about as many backups of each.

    spread: nodes in an order of this pod, so that all pods together reach all nodes. Half of the backups are those
    that most pods may have, because a reserve is shared by pods that do not fall together.
    """
    places = _first(most, pod.places, [pod.home, has.place, *spread])
    shared = _first(most // 2, pod.backups, shared_first)
    backups = _first(max(most, most**2 // len(places)), pod.backups, [has.backup, *shared, *spread])
    return replace(pod, places=places, backups=backups)


def _first(most: int, allowed: Sequence[int], ordered: Sequence[int | None]) -> tuple[int, ...]:
    """Returns the first of the ordered nodes that are allowed, in the order of `allowed`."""
    chosen = dict.fromkeys(node for node in ordered if node in allowed)
    first = set(list(chosen)[:most])
    return tuple(node for node in allowed if node in first)
