"""What of a plan a new leader will need: `memory` has the form, this has the values."""

import math
from collections.abc import Set

from leadsman.cluster.pod import ClusterPod
from leadsman.decision.delay.bounds import NoTarget, valid_bounds
from leadsman.decision.delay.evaluation import evaluate_bounds, pair_rows
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.situation import Situation
from leadsman.published.backups import BackupMemory, RememberedBackup


def remember(
    plan: BackupPlan, situation: Situation, before: BackupMemory, unhealthy: Set[str], now_unix: float
) -> BackupMemory:
    """The memory of this plan. Delays to unhealthy nodes stay as they were before: they cannot be measured now."""
    pods: dict[str, RememberedBackup] = {}
    for uid, backup in plan.backups.items():
        pod, old = situation.cluster.pods[uid], before.pods.get(uid)
        rtt_ms = _round_trips_ms(situation, pod, backup.node)
        if old is not None and old.node == backup.node:
            rtt_ms |= {reference: ms for reference, ms in old.rtt_ms.items() if reference in unhealthy}
        pods[uid] = RememberedBackup(backup.node, pod.owner_uid, rtt_ms)
    return BackupMemory(now_unix, pods)


def _round_trips_ms(situation: Situation, pod: ClusterPod, node: str) -> dict[str, float]:
    """Reference node of the pod's bounds → round trip to `node` as it is known now, measured or estimated."""
    found: dict[str, float] = {}
    info, inputs = PodInfo.of(pod), situation.inputs
    for each in evaluate_bounds(valid_bounds(info), info, situation.candidates, inputs):
        if not isinstance(each, NoTarget):
            position = each.evaluation.index.position(node)
            found |= {row.reference: float(row.rtt_ms[position]) for row in pair_rows(each, inputs)}
    return {reference: rtt_ms for reference, rtt_ms in found.items() if not math.isnan(rtt_ms)}
