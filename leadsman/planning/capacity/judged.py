"""Judges a packing by the code that judges placements and failures, which knows nothing of the Problem."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.cluster.scheduling import refusals as scheduling_refusals
from leadsman.decision.delay.delay_filter import DelayFilter
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes
from leadsman.decision.workloads import PlacedPod, WorkloadIndex
from leadsman.planning.backups.after_failure import lost_pods
from leadsman.planning.backups.bounds_after_failure import pod_info
from leadsman.planning.backups.domains import FailureDomains, rack_of
from leadsman.planning.backups.model import Backup, BackupPlan, FailureDomain
from leadsman.planning.capacity.model import CapacityModel
from leadsman.planning.capacity.packing import surviving
from leadsman.planning.capacity.problem import Packing


def broken(model: CapacityModel, packing: Packing) -> Mapping[str, str]:
    """Pod or node → what is wrong. Empty when every new pod may be on its node, every pod with a backup survives every
    failure that it is to survive, and every node has room for its pods and for what it reserves.

    Of the new pods of a template on a node one is judged: they are alike.
    """
    cluster, plan, samples = packed_cluster(model, packing)
    inputs = with_workloads(cluster, model.inputs)
    found: dict[str, str] = {}
    for pod in samples:
        refused = DelayFilter().refusals(pod_info(pod), CandidateNodes.of(cluster.nodes), inputs)
        if pod.node in refused:
            found[pod.uid] = f"{pod.node}: {refused[pod.node].reason}"
        elif reasons := scheduling_refusals(cluster, pod, pod.node):
            found[pod.uid] = f"{pod.node}: {reasons[0]}"
    for node, reserve in plan.reserves.items():
        if not reserve.fits(cluster.free(node)):
            found[node] = f"it reserves {reserve} and has only {cluster.free(node)}"
    domains = FailureDomains(cluster, lambda node: rack_of(node, inputs, model.settings.rack_label))
    for domain in sorted({domain for backup in plan.backups.values() for domain in backup.domains}):
        found |= lost_pods(cluster, domains.failure(domain), plan, inputs)
    return found


def packed_cluster(model: CapacityModel, packing: Packing) -> tuple[Cluster, BackupPlan, list[ClusterPod]]:
    """The cluster with the new pods, the backups of all, and one pod of each template on each node."""
    added: dict[str, ClusterPod] = {}
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
    cluster = model.cluster.changed(pods=added)
    return cluster, BackupPlan(backups, _reserves(cluster, BackupPlan(backups))), samples


def with_workloads(cluster: Cluster, inputs: DecisionInputs) -> DecisionInputs:
    """The inputs with each workload where the cluster's pods of it are."""
    table: dict[tuple[str, str], dict[str, list[PlacedPod]]] = {}
    for pod in cluster.pods.values():
        kind, _, name = pod.workload.partition("/")
        placed = table.setdefault((pod.namespace, name), {}).setdefault(kind, [])
        if pod.node:
            placed.append(PlacedPod(pod.name, pod.node))
    fixed = {key: {kind: tuple(placed) for kind, placed in kinds.items()} for key, kinds in table.items()}
    return replace(inputs, workloads=WorkloadIndex(fixed, inputs.now))


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
