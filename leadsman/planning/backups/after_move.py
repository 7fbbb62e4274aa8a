"""The backup plan once one pod is on another node, without asking again about pods that the move cannot touch."""

from msgspec.structs import replace

from leadsman.cluster.pod import ClusterPod
from leadsman.planning.backups.model import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import Planner, plan_backups
from leadsman.planning.situation import Situation


def plan_after_move(
    before: BackupPlan, moved: ClusterPod, situation: Situation, settings: BackupSettings
) -> BackupPlan:
    """A plan in which every backup holds. Those of `before` stay where they do, and none is moved to save room.

    moved: the pod as it stands in the situation, which is without placeholders. Pods that had no backup are not tried
    again unless everything has to be.
    """
    plan = None if _touches_all(moved) else _plan_of_touched(before, moved, situation, settings)
    if plan is not None:
        return plan
    kept = {uid: backup.node for uid, backup in before.backups.items()}
    return plan_backups(situation, replace(settings, max_improvements=0), kept)


def _touches_all(moved: ClusterPod) -> bool:
    """Whether its place may decide where any other pod may go: what it must be away from, and who shares its volume."""
    return bool(moved.constraints.anti_affinity or moved.claims)


def _plan_of_touched(
    before: BackupPlan, moved: ClusterPod, situation: Situation, settings: BackupSettings
) -> BackupPlan | None:
    """None: a pod that did not move needs another backup, so that others may as well."""
    planner, backups = Planner(situation, settings), before.backups
    touched = planner.touched_by(moved, backups)
    for pod in planner.order:
        if pod.uid not in touched:
            planner.take_over(pod, before.pods[pod.uid])
    for pod in planner.order:
        if pod.uid in touched and pod.uid in backups and planner.cover(pod, [backups[pod.uid].node]):
            continue
        if pod.uid == moved.uid or (pod.uid in touched and pod.uid not in backups):
            planner.cover(pod)
    planner.settle()
    after = planner.backups
    stay = all(uid in after and after[uid].node == each.node for uid, each in backups.items() if uid != moved.uid)
    return planner.plan() if stay and (moved.uid in after or moved.uid not in backups) else None
