"""Defines what a failure costs, and what to add so that more fits."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.checks import NodeColumns
from leadsman.cluster.model import ClusterPod
from leadsman.planning.backups.backup_plan import SCOPES, BackupScope, Failure, FailureDomain, never_replaced
from leadsman.planning.backups.reserve import HOSTNAME_LABEL, Columns, Ints, ReserveLedger, copies, room_of
from leadsman.planning.capacity.count import PackingSolver, fits, limits
from leadsman.planning.capacity.fit_model import CapacityModel, without_counted
from leadsman.planning.capacity.packing import Mask, Problem, Spread, Template

_GONE = np.iinfo(np.int64).min
"""This is what a node that failed has free: less than any pod asks for."""

NO_ROOM = "no node that may have it has room"


class Loss(Struct, frozen=True):
    """Says what one failure costs.

    failure: as `node edge-3`. scope: of it.
    fallen: pods that run there, without those of DaemonSets and static ones.
    lost: pod → why it finds no node. Pods are given nodes one after another, so a better order may save some of them.
    fits: template → pods of it for which there is room then, without backups of their own.
    """

    failure: str
    scope: BackupScope
    fallen: int
    lost: Mapping[str, str]
    fits: tuple[int, ...]


def losses(model: CapacityModel) -> Iterator[Loss]:
    """Returns what is lost with every node, rack and zone by itself. Racks and zones of one node are left out: they
    fail with the node."""
    failing = _AfterFailures(model)
    for domain in sorted(model.failures.domains, key=lambda each: (SCOPES.index(each.scope), each.name)):
        failure = model.failures.failure(domain)
        if domain.scope is BackupScope.NODE or len(failure.nodes) > 1:
            yield failing.loss(failure)


class _AfterFailures:
    """The cluster, as arrays over its nodes."""

    def __init__(self, model: CapacityModel) -> None:
        self._model, self._backups = model, model.plan.backups
        cluster = model.situation.cluster
        pods = [each.pod for each in model.templates]
        self._columns = Columns(pods, cluster.pods.values())
        self._nodes = model.problem.room.nodes
        self._position = {node: number for number, node in enumerate(self._nodes)}
        self._at = np.array([self._position.get(name, -1) for name in NodeColumns(cluster).names])
        self._memory = self._columns.names.index("memory") if "memory" in self._columns.names else 0
        room = room_of(cluster, self._columns, model.failures, self._backups)
        self._held = ReserveLedger(room.free, room.needs).reserved
        self._free = room.free - self._held
        self._wanted = [self._columns.of(pod) for pod in pods]
        self._amounts = {uid: (self._columns.of(pod), self._columns.taken_by(pod)) for uid, pod in cluster.pods.items()}
        self._allowed: dict[object, Ints] = {}
        self._alike: dict[bytes, Ints] = {}

    def loss(self, failure: Failure) -> Loss:
        free, held = np.array(self._free, order="F"), self._held.copy()
        gone = [self._position[node] for node in failure.nodes]
        free[gone] = held[gone] = _GONE
        fallen = [pod for pod in failure.pods if not (pod.mirror or pod.owner_kind == "DaemonSet" or pod.terminating)]
        lost: dict[str, str] = {}
        for pod in sorted(fallen, key=lambda pod: self._order(pod, failure)):
            if reason := self._land(pod, free, held):
                lost[f"{pod.namespace}/{pod.name}"] = reason
        fits = []
        for template, amounts in zip(self._model.problem.templates, self._wanted, strict=True):
            fits.append(int((copies(free, amounts) * template.places).sum()))
        return Loss(str(failure.domain), failure.domain.scope, len(fallen), lost, tuple(fits))

    def _order(self, pod: ClusterPod, failure: Failure) -> tuple[bool, int, int, str]:
        """Ranks pods: those with backups first, because their room is held. Then by priority, then large pods."""
        backup = self._backups.get(pod.uid)
        covered = backup is not None and failure.domain in backup.domains
        return not covered, -pod.priority, -pod.requests.memory_bytes, pod.uid

    def _land(self, pod: ClusterPod, free: Ints, held: Ints) -> str:
        """Gives the pod room on a node, and says why there is none; "": there is.

        free: what anybody may take. held: room for backups: only pods that have theirs there get it.
        """
        (amounts, taken), backup = self._amounts[pod.uid], self._backups.get(pod.uid)
        if backup and (held[self._position[backup.node]] >= taken).all():
            held[self._position[backup.node]] -= taken
            return ""
        if reason := never_replaced(pod):
            return reason
        at = self._may_have(pod)
        there = free if len(at) == len(free) else free[at]
        memory = there[:, self._memory]
        fitting = memory > _GONE
        for column in np.flatnonzero(amounts).tolist():
            fitting &= there[:, column] >= amounts[column]
        if not fitting.any():
            return NO_ROOM
        free[at[np.argmax(np.where(fitting, memory, _GONE))]] -= taken
        return ""

    def _may_have(self, pod: ClusterPod) -> Ints:
        """Positions by bounds and by what kube-scheduler asks, apart from room, in the cluster as it is now; once for
        the pods of a template, and of those that look at what is beside them for each node."""
        looks = pod.constraints.affinity or pod.constraints.anti_affinity or pod.constraints.spread
        key = (
            pod.node if looks or pod.claims or pod.devices else "",
            pod.namespace,
            id(pod.labels),
            id(pod.constraints),
            pod.workload,
            pod.claims,
            tuple(pod.annotations.items()),
            id(pod.devices),
        )
        if key not in self._allowed:
            at = np.sort(self._at[self._model.situation.verdict(without_counted(pod)).positions])
            # Most templates may have the same nodes, all of them.
            self._allowed[key] = self._alike.setdefault(at.tobytes(), at)
        return self._allowed[key]


MOST_COPIES = 1000


class Addition(Struct, frozen=True):
    """Says how many sets fit with `copies` of `node`. like: other nodes of which as many copies do."""

    copies: int
    node: str
    like: tuple[str, ...] = ()


def additions(model: CapacityModel, sets: int, solver: PackingSolver | None = None) -> list[Addition]:
    """Returns what to add so that so many sets fit: copies of one node that is there, at its position in the network,
    the fewest copies first; [] when copies of no single node are enough.

    A copy has its node's labels, taints and size, its rack and zone, its DaemonSet pods, and its delays.

    solver: asked about small clusters.
    """
    found = []
    for alike in _alike(model):
        if copies := _fewest(model, alike[0], sets, solver):
            found.append(Addition(copies, alike[0], tuple(alike[1:])))
    return sorted(found, key=lambda each: (each.copies, each.node))


def extended(model: CapacityModel, node: str, count: int) -> Problem:
    """Returns the problem with `count` copies of the node."""
    problem, room = model.problem, model.problem.room
    at = room.nodes.index(node)
    names = [f"{node}+{number}" for number in range(1, count + 1)]
    own = tuple((FailureDomain(BackupScope.NODE, name), *room.domains[at][1:]) for name in names)
    return replace(
        problem,
        room=replace(
            room,
            nodes=(*room.nodes, *names),
            free=np.concatenate([room.free, np.repeat(_fresh(model, node)[None], count, axis=0)]),
            domains=room.domains + own,
        ),
        templates=tuple(_extended(each, at, count) for each in problem.templates),
    )


def _alike(model: CapacityModel) -> list[list[str]]:
    """Returns the nodes that may run a template, those together that no template can tell apart."""
    groups: dict[object, list[str]] = {}
    scopes = max(each.scopes for each in model.problem.templates)
    for at, node in enumerate(model.problem.room.nodes):
        masks = [(each.places[at], each.backups[at]) for each in model.problem.templates]
        if any(place or backup for place, backup in masks) and not model.situation.cluster.nodes[node].unschedulable:
            spreads = tuple(
                int(spread.domain_of_node[at])
                for each in model.problem.templates
                for spread in each.spread
                if spread.label != HOSTNAME_LABEL
            )
            wider = model.problem.room.domains[at][1:scopes]
            key = tuple(_fresh(model, node).tolist()), tuple(map(tuple, masks)), wider, spreads
            groups.setdefault(key, []).append(node)
    return list(groups.values())


def _fewest(model: CapacityModel, node: str, sets: int, solver: PackingSolver | None) -> int:
    """Returns the fewest copies that are enough; 0: MOST_COPIES are not."""

    def suffices(copies: int) -> bool:
        return fits(extended(model, node, copies), sets, solver)

    if limits(extended(model, node, MOST_COPIES))[0].sets < sets:
        return 0
    high = 1
    while not suffices(high):
        high *= 2
        if high > MOST_COPIES:
            return 0
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        if suffices(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _fresh(model: CapacityModel, node: str) -> Ints:
    """Returns what a copy of the node has free beside the pods that every node like it gets."""
    staying = [pod for pod in model.situation.cluster.pods_on(node) if pod.mirror or pod.owner_kind == "DaemonSet"]
    others = {pod.uid: None for pod in model.situation.cluster.pods_on(node) if pod not in staying}
    columns = Columns([each.pod for each in model.templates])
    return columns.free(model.situation.cluster.changed(pods=others), node)


def _extended(template: Template, at: int, count: int) -> Template:
    return replace(
        template,
        places=_repeated(template.places, at, count),
        backups=_repeated(template.backups, at, count),
        spread=tuple(_extended_spread(each, at, count) for each in template.spread),
    )


def _repeated(mask: Mask, at: int, count: int) -> Mask:
    return np.concatenate([mask, np.full(count, mask[at])])


def _extended_spread(spread: Spread, at: int, count: int) -> Spread:
    """Over host names every copy is a domain of its own."""
    if spread.label != HOSTNAME_LABEL:
        here = np.full(count, spread.domain_of_node[at])
        return replace(spread, domain_of_node=np.concatenate([spread.domain_of_node, here]))
    own = len(spread.present) + np.arange(count)
    return replace(
        spread,
        domain_of_node=np.concatenate([spread.domain_of_node, own]),
        present=np.concatenate([spread.present, np.zeros(count, np.int64)]),
        counted=np.concatenate([spread.counted, np.ones(count, np.bool_)]),
    )
