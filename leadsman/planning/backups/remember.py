"""What of a plan a new leader will need: `memory` has the form, this has the values."""

from collections.abc import Set

from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.bounds_after_failure import BoundsAfterFailure
from leadsman.planning.backups.model import BackupPlan
from leadsman.published.backups import BackupMemory, RememberedBackup


def remember(
    plan: BackupPlan,
    cluster: Cluster,
    inputs: DecisionInputs,
    before: BackupMemory,
    unhealthy: Set[str],
    now_unix: float,
) -> BackupMemory:
    """The memory of this plan. Delays to unhealthy nodes stay as they were before: they cannot be measured now."""
    bounds = BoundsAfterFailure(cluster, inputs)
    pods: dict[str, RememberedBackup] = {}
    for uid, backup in plan.backups.items():
        pod, old = cluster.pods[uid], before.pods.get(uid)
        rtt_ms = bounds.round_trips_ms(pod, backup.node)
        if old is not None and old.node == backup.node:
            rtt_ms |= {reference: ms for reference, ms in old.rtt_ms.items() if reference in unhealthy}
        pods[uid] = RememberedBackup(backup.node, pod.owner_uid, rtt_ms)
    return BackupMemory(now_unix, pods)
