"""What one failure would cost under a plan: checked from the plan's words alone, without the planner's bookkeeping."""

from collections import defaultdict
from collections.abc import Mapping

from msgspec.structs import replace

from leadsman.cluster.resources import ZERO, Resources
from leadsman.planning.backups.domains import Failure
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.situation import Situation


def lost_pods(situation: Situation, failure: Failure, plan: BackupPlan) -> Mapping[str, str]:
    """UID → why it is lost, of the pods that the plan covers against this failure. Empty when the plan is right.

    situation: without placeholders. Every covered pod lands on its backup at once, in rooms no larger than the
    reserves.
    """
    backups = {uid: backup for uid, backup in plan.backups.items() if failure.domain in backup.domains}
    covered = [pod for pod in failure.pods if pod.uid in backups]
    arriving = defaultdict[str, Resources](lambda: ZERO)
    for pod in covered:
        arriving[backups[pod.uid].node] += pod.requests
    landed = {pod.uid: replace(pod, node=backups[pod.uid].node) for pod in covered}
    after = situation.failed(failure.nodes).changed(landed)
    lost: dict[str, str] = {}
    for pod in landed.values():
        node = pod.node
        if node in failure.nodes:
            lost[pod.uid] = f"its backup {node} fails too"
        elif not arriving[node].fits(plan.reserves[node]):
            lost[pod.uid] = f"{node} reserves {plan.reserves[node]}, and {arriving[node]} fall there"
        elif reason := after.verdict(pod).why_not(node):
            lost[pod.uid] = f"{node}: {reason}"
    return lost
