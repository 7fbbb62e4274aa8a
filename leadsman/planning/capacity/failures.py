"""What the failure of each node, rack or zone costs: which pods that run now find no node, and what fits then."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from leadsman.cluster.pod import ClusterPod
from leadsman.planning.backups.domains import Failure, FailureDomains
from leadsman.planning.backups.model import BackupScope
from leadsman.planning.backups.planner import never_replaced
from leadsman.planning.capacity.model import SCOPES, CapacityModel, Columns, without_counted
from leadsman.planning.capacity.problem import Ints, Mask, copies

NO_ROOM = "no node that may have it has room"


class Loss(Struct, frozen=True):
    """What one failure costs.

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
    """Of every node, rack and zone by itself. Racks and zones of one node are left out: they fail with the node."""
    failing = _Failing(model)
    for domain in sorted(model.domains, key=lambda each: (SCOPES.index(each.scope), each.name)):
        failure = failing.domains.failure(domain)
        if domain.scope is BackupScope.NODE or len(failure.nodes) > 1:
            yield failing.loss(failure)


class _Failing:
    """The cluster, as arrays over its nodes."""

    def __init__(self, model: CapacityModel) -> None:
        self._model, self._backups = model, model.plan.backups
        cluster = model.situation.cluster
        self.domains = FailureDomains(cluster, model.situation.inputs, model.settings.rack_label)
        pods = [each.pod for each in model.templates]
        self._columns = Columns(pods, cluster.pods.values())
        self._nodes = model.problem.nodes
        self._position = {node: number for number, node in enumerate(self._nodes)}
        rows = [self._columns.free(cluster, node) for node in self._nodes]
        self._free: Ints = np.array(rows, np.int64).reshape(len(rows), -1)
        self._wanted = [np.array(self._columns.of(pod), np.int64) for pod in pods]
        self._allowed: dict[object, Mask] = {}

    def loss(self, failure: Failure) -> Loss:
        free = self._free.copy()
        gone = [self._position[node] for node in failure.nodes]
        free[gone] = -1
        fallen = [pod for pod in failure.pods if not (pod.mirror or pod.owner_kind == "DaemonSet" or pod.terminating)]
        lost: dict[str, str] = {}
        for pod in sorted(fallen, key=lambda pod: self._order(pod, failure)):
            amounts = np.array(self._columns.of(pod), np.int64)
            landing = self._landing(pod, amounts, free, failure)
            if isinstance(landing, str):
                lost[f"{pod.namespace}/{pod.name}"] = landing
            else:
                free[landing] -= amounts
        fits = []
        for template, amounts in zip(self._model.problem.templates, self._wanted, strict=True):
            fits.append(int((copies(free, amounts) * template.places).sum()))
        return Loss(str(failure.domain), failure.domain.scope, len(fallen), lost, tuple(fits))

    def _order(self, pod: ClusterPod, failure: Failure) -> tuple[bool, int, int, str]:
        """Backups first: their room is held. Then by priority, then large pods."""
        return not self._backup(pod, failure), -pod.priority, -pod.requests.memory_bytes, pod.uid

    def _backup(self, pod: ClusterPod, failure: Failure) -> str:
        backup = self._backups.get(pod.uid)
        return backup.node if backup and failure.domain in backup.domains else ""

    def _landing(self, pod: ClusterPod, amounts: Ints, free: Ints, failure: Failure) -> int | str:
        if backup := self._backup(pod, failure):
            return self._position[backup]
        if reason := never_replaced(pod):
            return reason
        fitting = ((free >= amounts) | (amounts == 0)).all(axis=1) & self._may_have(pod)
        fitting[[self._position[node] for node in failure.nodes]] = False
        if not fitting.any():
            return NO_ROOM
        memory = self._columns.names.index("memory") if "memory" in self._columns.names else 0
        return int(np.argmax(np.where(fitting, free[:, memory], np.iinfo(np.int64).min)))

    def _may_have(self, pod: ClusterPod) -> Mask:
        """By bounds and by what kube-scheduler asks, apart from room, in the cluster as it is now; once for the pods of
        a template."""
        key = (
            pod.namespace,
            id(pod.labels),
            id(pod.constraints),
            pod.workload,
            pod.claims,
            tuple(pod.annotations.items()),
            id(pod.devices),
        )
        if key not in self._allowed:
            may = set(self._model.situation.verdict(without_counted(pod)).nodes)
            self._allowed[key] = np.array([node in may for node in self._nodes], np.bool_)
        return self._allowed[key]
