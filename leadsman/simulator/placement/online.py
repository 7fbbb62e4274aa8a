"""Leadsman online: pod by pod by the decision, backups by the controller's planner, one move to make room."""

from collections.abc import Mapping

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.decide import MAX_SCORE, decide
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import ROLE_LABEL
from leadsman.planning.backups.model import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import NO_BACKUPS, plan_backups, without_placeholders
from leadsman.planning.moves.movable import why_never_moved
from leadsman.planning.moves.search import Search
from leadsman.planning.situation import Situation, with_workloads_of
from leadsman.simulator.placement.placement import Placement, with_placeholders
from leadsman.simulator.placement.spreading import MAX_NODE_SCORE, least_allocated


class Online:
    """A Policy. batch: pods that arrive between two backup plans of the controller; after a move it plans at once."""

    def __init__(self, settings: BackupSettings, batch: int) -> None:
        self._settings, self._batch = settings, batch

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        roles = {name: node.labels[ROLE_LABEL] for name, node in cluster.nodes.items() if ROLE_LABEL in node.labels}
        run = _Run(cluster, replace(inputs, node_roles=roles), self._settings)
        for number, pod in enumerate(cluster.unbound_pods):
            if number % self._batch == 0:
                run.plan_backups()
            run.place(pod)
        run.plan_backups()
        return Placement(without_placeholders(run.cluster), run.inputs, run.plan, run.moves)


class _Run:
    """cluster: with a placeholder on each node that reserves something."""

    def __init__(self, cluster: Cluster, inputs: DecisionInputs, settings: BackupSettings) -> None:
        self._settings = settings
        self.cluster, self.inputs, self.plan, self.moves = cluster, with_workloads_of(cluster, inputs), BackupPlan(), 0

    def place(self, pod: ClusterPod) -> None:
        """Gives the pod a node, moving another one away where that alone makes room."""
        node = self._best(pod)
        if not node:
            search = Search(Situation(self.cluster, self.inputs), lambda owner, node: False)
            if move := search.room_for(pod, why_never_moved):
                node = move.moved.node
                self._bind(move.moved, move.to_node)
                self.moves += 1
                self._bind(pod, node)
                self.plan_backups()
                return
        if node:
            self._bind(pod, node)

    def plan_backups(self) -> None:
        """Plans with the backups so far and holds the room of each node by a placeholder."""
        before = {uid: backup.node for uid, backup in self.plan.backups.items()} or NO_BACKUPS
        self.plan = plan_backups(Situation(self.cluster, self.inputs), self._settings, before)
        self.cluster = with_placeholders(self.cluster, self.plan.reserves)

    def _best(self, pod: ClusterPod) -> str:
        """As kube-scheduler adds up: an extender's 0..10 of weight 1 beside its own 0..100; "": no node takes it."""
        decision = decide(PodInfo.of(pod), Feasibility(self.cluster, pod).nodes, self.inputs)
        scores: Mapping[str, int] = decision.scores

        def total(node: str) -> float:
            return scores.get(node, 0) * MAX_NODE_SCORE / MAX_SCORE + least_allocated(self.cluster, pod, node)

        return max(sorted(decision.kept), key=total, default="")

    def _bind(self, pod: ClusterPod, node: str) -> None:
        self.cluster = self.cluster.with_pod(pod, node)
        self.inputs = with_workloads_of(self.cluster, self.inputs)
