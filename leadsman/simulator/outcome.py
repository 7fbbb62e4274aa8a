"""Finds what a placement is worth, judged by the code that judges delay bounds and failures."""

from collections.abc import Callable

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import BackupScope, Failure, FailureDomain, lost_pods
from leadsman.planning.situation import Situation
from leadsman.simulator.placements import Placement, Policy


class Outcome(Struct, frozen=True):
    """Says what the placement of one policy is worth.

    pods: that waited. accepted: those of them on a node that keeps their bounds; the others count as not placed.
    pod_bytes: memory of all accepted pods with a bound; reserved_bytes: memory that nodes hold for failures.
    falling, lost: pods with a bound, summed over the failures of each single node: that fall, and that then have no
        room on a node that keeps their bounds.
    covered, lost_covered: of falling and lost, the pods that had a backup.
    seconds: of the CPU, for placing.
    """

    policy: str
    pods: int
    accepted: int
    reserved_bytes: int
    pod_bytes: int
    falling: int
    lost: int
    covered: int
    lost_covered: int
    moves: int
    seconds: float


def compare(
    policies: dict[str, Policy], cluster: Cluster, inputs: DecisionInputs, cpu_seconds: Callable[[], float]
) -> dict[str, tuple[Placement, Outcome]]:
    """Maps each policy's name to what it makes of the same cluster, and what that is worth."""
    found = {}
    for name, policy in policies.items():
        began = cpu_seconds()
        placement = policy(cluster, inputs)
        found[name] = placement, outcome_of(name, placement, cluster, cpu_seconds() - began)
    return found


def outcome_of(policy: str, placement: Placement, before: Cluster, seconds: float) -> Outcome:
    """Returns what a placement is worth. before: the cluster with its pods waiting."""
    waiting = [placement.cluster.pods[pod.uid] for pod in before.unbound_pods]
    kept = keeping_bounds(placement)
    bounded = [placement.cluster.pods[uid] for uid in kept]
    bounded = [pod for pod in bounded if PodInfo.of(pod).has_delay_bounds]
    covered = placement.backups.backups.keys()
    lost = [uid for node in placement.cluster.nodes for uid in lost_on_failure(placement, node, kept)]
    return Outcome(
        policy=policy,
        pods=len(waiting),
        accepted=sum(pod.uid in kept for pod in waiting),
        reserved_bytes=sum(reserve.memory_bytes for reserve in placement.backups.reserves.values()),
        pod_bytes=sum(pod.requests.memory_bytes for pod in bounded),
        falling=len(bounded),
        lost=len(lost),
        covered=sum(pod.uid in covered for pod in bounded),
        lost_covered=sum(uid in covered for uid in lost),
        moves=placement.moves,
        seconds=seconds,
    )


def keeping_bounds(placement: Placement) -> set[str]:
    """Returns the UIDs of the pods on a node that keeps their bounds."""
    pods = [pod for pod in placement.cluster.pods.values() if pod.node]
    situation = Situation(placement.cluster, placement.inputs)
    return {pod.uid for pod in pods if situation.keeps_bounds(pod, pod.node)}


def lost_on_failure(placement: Placement, node: str, kept: set[str]) -> set[str]:
    """Returns the UIDs of those pods with a bound in `kept` that this node's failure leaves without a place."""
    cluster = placement.cluster
    failure = Failure(FailureDomain(BackupScope.NODE, node), frozenset([node]), cluster.pods_on(node))
    falling = {pod.uid for pod in failure.pods if pod.uid in kept and PodInfo.of(pod).has_delay_bounds}
    covered = {uid for uid, backup in placement.backups.backups.items() if failure.domain in backup.domains}
    lost = set(lost_pods(Situation(cluster, placement.inputs), failure, placement.backups)) & kept
    return lost | (falling - covered)
