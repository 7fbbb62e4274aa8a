"""Whether each bounded pod is covered now: a plan covers it only once placeholders hold the room that it needs."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.planning.backups.model import BackupPlan, Uncovered
from leadsman.planning.backups.placeholders import held_by, placeholders_by_node


class CoverageState(StrEnum):
    """Of one pod.

    COVERED: its backup node holds the room that it needs.
    WAITING: its backup node is chosen, and the room is not held yet.
    UNCOVERED: no node can be its backup, or the room was refused.
    """

    COVERED = "covered"
    WAITING = "waiting"
    UNCOVERED = "uncovered"


class Coverage(Struct, frozen=True):
    """Of one pod. node: its backup; "": it has none. reason: why it is not covered; "" when it is."""

    state: CoverageState
    node: str = ""
    reason: str = ""


def coverage_of(cluster: Cluster, plan: BackupPlan, problems: Mapping[str, str]) -> Mapping[str, Coverage]:
    """UID → coverage, of every pod of the plan.

    problems: node → why its placeholders cannot be created or changed, such as a quota.
    """
    placeholders = placeholders_by_node(cluster)
    lacking = {
        node: ", ".join(each.resource for each in shortfall)
        for node, reserve in plan.reserves.items()
        if (shortfall := reserve.shortfall(held_by(placeholders.get(node, ()))))
    }
    found: dict[str, Coverage] = {}
    for uid, each in plan.pods.items():
        if isinstance(each, Uncovered):
            found[uid] = Coverage(CoverageState.UNCOVERED, reason=each.reason)
        elif each.node not in lacking:
            found[uid] = Coverage(CoverageState.COVERED, each.node)
        elif each.node in problems:
            found[uid] = Coverage(CoverageState.UNCOVERED, each.node, problems[each.node])
        else:
            reason = f"node {each.node} does not hold its room yet: {lacking[each.node]} missing"
            found[uid] = Coverage(CoverageState.WAITING, each.node, reason)
    return found
