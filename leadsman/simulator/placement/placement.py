"""What a policy makes of a cluster."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.names import PLACEHOLDER_LABEL
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.planner import without_placeholders

Reschedule = Callable[[Cluster, ClusterPod], str]
"""The node that takes a pod which has none; "": none does."""


class Placement(Struct, frozen=True):
    """A cluster whose waiting pods were placed.

    cluster: without placeholders.
    backups: where bounded pods go when their node fails, and what nodes reserve for that.
    moves: how often a pod that had a node was given another one.
    reschedule: where a fallen pod goes that has no backup; None: it waits for its node.
    remark: what is known of the result, such as that it is proven optimal.
    """

    cluster: Cluster
    inputs: DecisionInputs
    backups: BackupPlan = BackupPlan()
    moves: int = 0
    reschedule: Reschedule | None = None
    remark: str = ""


Policy = Callable[[Cluster, DecisionInputs], Placement]
"""Places the pods that have no node, in the cluster's order."""


def with_placeholders(cluster: Cluster, reserves: Mapping[str, Resources]) -> Cluster:
    """The cluster with one placeholder on each node that reserves something, in the place of all that were there."""
    held = {
        f"placeholder/{node}": ClusterPod(
            f"placeholder/{node}", "leadsman", node, node=node, labels={PLACEHOLDER_LABEL: node}, requests=reserve
        )
        for node, reserve in reserves.items()
    }
    return without_placeholders(cluster).changed(pods=held)
