"""Places the waiting pods of a simulated cluster as Leadsman does.

A policy is a function of a cluster and the inputs of decisions; what it makes of them is a Placement.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.decision.decide import MAX_SCORE, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.names import PLACEHOLDER_LABEL, PLACEHOLDER_NAMESPACE, ROLE_LABEL
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import NO_BACKUPS, plan_backups, without_placeholders
from leadsman.planning.moves.search import Search, why_never_moved
from leadsman.planning.situation import Judge, Scorer, Situation, with_devices_of, with_workloads_of

# What a policy makes of a cluster.


class Placement(Struct, frozen=True):
    """A cluster whose waiting pods were placed, and what that took.

    cluster: without placeholders.
    backups: where bounded pods go when their node fails, and what nodes reserve for that.
    moves: how often a pod that had a node was given another one.
    """

    cluster: Cluster
    inputs: DecisionInputs
    backups: BackupPlan = BackupPlan()
    moves: int = 0


Policy = Callable[[Cluster, DecisionInputs], Placement]
"""Places the pods that have no node, in the cluster's order."""


def with_placeholders(cluster: Cluster, reserves: Mapping[str, Resources]) -> Cluster:
    """Returns the cluster with one placeholder on each node that reserves something, replacing all others."""
    held = {
        f"placeholder/{node}": ClusterPod(
            f"placeholder/{node}",
            PLACEHOLDER_NAMESPACE,
            node,
            node=node,
            labels={PLACEHOLDER_LABEL: node},
            requests=reserve,
        )
        for node, reserve in reserves.items()
    }
    return without_placeholders(cluster).changed(pods=held)


MAX_NODE_SCORE = 100.0


def least_allocated(cluster: Cluster, pod: ClusterPod, node: str) -> float:
    """Returns 0..100: the mean share of the node's CPU and memory that stays free with the pod.

    pkg/scheduler/framework/plugins/noderesources/least_allocated.go.
    """
    free, size = cluster.free(node) - pod.requests, cluster.nodes[node].allocatable
    shares = [max(free.amount(name), 0) / size.amount(name) for name in ("cpu", "memory") if size.amount(name)]
    return MAX_NODE_SCORE * sum(shares) / max(len(shares), 1)


# Leadsman online: pod by pod by the decision, backups by the controller's planner, one move to make room.


class Online:
    """Places as Leadsman does, as a Policy. batch: pods that arrive between backup plans; a move plans at once.
    judges: filter and score nodes as the extender does."""

    def __init__(
        self, settings: BackupSettings, batch: int, judges: tuple[Judge, Scorer] = (filter_nodes, score_nodes)
    ) -> None:
        self._settings, self._batch, self._judges = settings, batch, judges

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        roles = {name: node.labels.get(ROLE_LABEL, "") for name, node in cluster.nodes.items()}
        inputs = with_devices_of(cluster, with_workloads_of(cluster, replace(inputs, node_roles=roles)))
        run = _Run(Situation(cluster, inputs, *self._judges), self._settings)
        for number, pod in enumerate(cluster.unbound_pods):
            if number % self._batch == 0:
                run.plan_backups()
            run.place(pod)
        run.plan_backups()
        after = run.situation
        return Placement(without_placeholders(after.cluster), after.inputs, run.plan, run.moves)


class _Run:
    """One run of our own policy.

    situation: with a placeholder on each node that reserves something.
    """

    def __init__(self, situation: Situation, settings: BackupSettings) -> None:
        self.situation, self._settings, self.plan, self.moves = situation, settings, BackupPlan(), 0

    def place(self, pod: ClusterPod) -> None:
        """Gives the pod a node, and moves another pod away where that alone makes room."""
        node = self._best(pod)
        if not node:
            search = Search(self.situation, lambda owner, node: False)
            if move := search.room_for(pod, why_never_moved):
                moved, to_node = move
                node = moved.node
                self._bind(moved, to_node)
                self.moves += 1
                self._bind(pod, node)
                self.plan_backups()
                return
        if node:
            self._bind(pod, node)

    def plan_backups(self) -> None:
        """Plans with the backups so far and holds the room of each node by a placeholder."""
        before = {uid: backup.node for uid, backup in self.plan.backups.items()} or NO_BACKUPS
        self.plan = plan_backups(self.situation, self._settings, before)
        self.situation = self.situation.on(with_placeholders(self.situation.cluster, self.plan.reserves))

    def _best(self, pod: ClusterPod) -> str:
        """Returns the best node as kube-scheduler adds up: an extender's 0..10 of weight 1 beside its own 0..100; "":
        no node takes it."""
        kept, cluster = self.situation.verdict(pod).nodes, self.situation.cluster
        scores = self.situation.totals(pod, kept) if kept else {}

        def total(node: str) -> float:
            return scores[node] * MAX_NODE_SCORE / MAX_SCORE + least_allocated(cluster, pod, node)

        return max(sorted(kept), key=total, default="")

    def _bind(self, pod: ClusterPod, node: str) -> None:
        self.situation = self.situation.with_pod(pod, node)
