"""What one failure would cost under a plan: checked from the plan's words alone, without the planner's bookkeeping."""

from collections import defaultdict
from collections.abc import Mapping

from leadsman.cluster.model import Cluster
from leadsman.cluster.resources import ZERO, Resources
from leadsman.cluster.scheduling import refusals as scheduling_refusals
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.bounds_after_failure import BoundsAfterFailure
from leadsman.planning.backups.domains import Failure
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.planner import cluster_without


def lost_pods(cluster: Cluster, failure: Failure, plan: BackupPlan, inputs: DecisionInputs) -> Mapping[str, str]:
    """UID → why it is lost, of the pods that the plan covers against this failure. Empty when the plan is right.

    cluster: without placeholders. Every covered pod lands on its backup at once, in rooms no larger than the reserves.
    """
    backups = {uid: backup for uid, backup in plan.backups.items() if failure.domain in backup.domains}
    covered = [pod for pod in failure.pods if pod.uid in backups]
    after, arriving = cluster_without(cluster, failure), defaultdict[str, Resources](lambda: ZERO)
    for pod in covered:
        node = backups[pod.uid].node
        after, arriving[node] = after.with_pod(pod, node), arriving[node] + pod.requests
    bounds = BoundsAfterFailure(cluster, inputs)
    lost: dict[str, str] = {}
    for pod in covered:
        node = backups[pod.uid].node
        if node in failure.nodes:
            lost[pod.uid] = f"its backup {node} fails too"
        elif not arriving[node].fits(plan.reserves[node]):
            lost[pod.uid] = f"{node} reserves {plan.reserves[node]}, and {arriving[node]} fall there"
        elif reasons := scheduling_refusals(after.without_pod(pod.uid), pod, node):
            lost[pod.uid] = f"{node}: {reasons[0]}"
        elif node in (refused := bounds.refusals(pod, failure, backups)):
            lost[pod.uid] = f"{node}: {refused[node].reason}"
    return lost
