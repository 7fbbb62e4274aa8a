"""Judges a packing by the code that judges placements and failures, which knows nothing of the Problem."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.planning.backups.after_failure import lost_pods
from leadsman.planning.backups.domains import FailureDomains
from leadsman.planning.backups.model import Backup, BackupPlan, FailureDomain
from leadsman.planning.capacity.model import CapacityModel
from leadsman.planning.capacity.packing import surviving
from leadsman.planning.capacity.problem import Packing
from leadsman.planning.situation import Situation


def broken(model: CapacityModel, packing: Packing) -> Mapping[str, str]:
    """Pod or node → what is wrong. Empty when every new pod may be on its node, every pod with a backup survives every
    failure that it is to survive, and every node has room for its pods and for what it reserves.

    Of the new pods of a template on a node one is judged: they are alike.
    """
    situation, plan, samples = packed(model, packing)
    cluster = situation.cluster
    found: dict[str, str] = {}
    for pod in samples:
        if reason := situation.verdict(pod).why_not(pod.node):
            found[pod.uid] = f"{pod.node}: {reason}"
    for node, reserve in plan.reserves.items():
        if not reserve.fits(cluster.free(node)):
            found[node] = f"it reserves {reserve} and has only {cluster.free(node)}"
    domains = FailureDomains(cluster, situation.inputs, model.settings.rack_label)
    for domain in sorted({domain for backup in plan.backups.values() for domain in backup.domains}):
        found |= lost_pods(situation, domains.failure(domain), plan)
    return found


def packed(model: CapacityModel, packing: Packing) -> tuple[Situation, BackupPlan, list[ClusterPod]]:
    """The situation with the new pods, the backups of all, and one pod of each template on each node."""
    added: dict[str, ClusterPod | None] = {}
    backups, samples = dict(model.plan.pods), list[ClusterPod]()
    for number, template in enumerate(model.problem.templates):
        for node in np.flatnonzero(packing.runs[number]).tolist():
            pods = list(_pods(model, packing, number, node))
            samples.append(pods[0])
            added |= {pod.uid: pod for pod in pods}
            taking = packing.backups.get((number, node), {})
            domains = tuple(model.domains[each] for each in surviving(model.problem, template, node))
            waiting = iter(pods)
            for backup, count in taking.items():
                for _ in range(count):
                    backups[next(waiting).uid] = Backup(model.problem.nodes[backup], domains)
    situation = model.situation.changed(added)
    return situation, BackupPlan(backups, _reserves(situation.cluster, BackupPlan(backups))), samples


def _pods(model: CapacityModel, packing: Packing, number: int, node: int) -> Iterator[ClusterPod]:
    template = model.templates[number]
    for copy in range(int(packing.runs[number, node])):
        name = f"{template.pod.name}-{node}-{copy}"
        yield replace(template.pod, uid=f"{template.pod.uid}-{node}-{copy}", name=name, node=model.problem.nodes[node])


def _reserves(cluster: Cluster, plan: BackupPlan) -> dict[str, Resources]:
    needs: dict[tuple[FailureDomain, str], Resources] = {}
    for uid, backup in plan.backups.items():
        for domain in backup.domains:
            needs[domain, backup.node] = needs.get((domain, backup.node), ZERO) + cluster.pods[uid].requests
    reserves: dict[str, Resources] = {}
    for (_, node), amount in needs.items():
        reserves[node] = reserves.get(node, ZERO).maximum(amount)
    return reserves
