"""Places the waiting pods of a simulated cluster: by Leadsman online, or by Leadsman offline.

A policy is a function of a cluster and the inputs of decisions; what it makes of them is a Placement.
"""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.decide import MAX_SCORE, decide
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import PLACEHOLDER_LABEL, ROLE_LABEL
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings
from leadsman.planning.backups.planner import NO_BACKUPS, plan_backups, without_placeholders
from leadsman.planning.moves.search import Search, why_never_moved
from leadsman.planning.optimise.choices import Ended, greedy_choices, score
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.optimised_plan import plan_of_choices
from leadsman.planning.situation import Situation, with_workloads_of
from leadsman.simulator import solver

# What a policy makes of a cluster.


class Placement(Struct, frozen=True):
    """A cluster whose waiting pods were placed.

    cluster: without placeholders.
    backups: where bounded pods go when their node fails, and what nodes reserve for that.
    moves: how often a pod that had a node was given another one.
    remark: what is known of the result, such as that it is proven optimal.
    """

    cluster: Cluster
    inputs: DecisionInputs
    backups: BackupPlan = BackupPlan()
    moves: int = 0
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


MAX_NODE_SCORE = 100.0


def least_allocated(cluster: Cluster, pod: ClusterPod, node: str) -> float:
    """0..100: the mean share of CPU and memory that stays free with the pod; of what the node has.

    pkg/scheduler/framework/plugins/noderesources/least_allocated.go.
    """
    free, size = cluster.free(node) - pod.requests, cluster.nodes[node].allocatable
    shares = [max(free.amount(name), 0) / size.amount(name) for name in ("cpu", "memory") if size.amount(name)]
    return MAX_NODE_SCORE * sum(shares) / max(len(shares), 1)


# Leadsman online: pod by pod by the decision, backups by the controller's planner, one move to make room.


class Online:
    """A Policy. batch: pods that arrive between two backup plans of the controller; after a move it plans at once."""

    def __init__(self, settings: BackupSettings, batch: int) -> None:
        self._settings, self._batch = settings, batch

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        roles = {name: node.labels.get(ROLE_LABEL, "") for name, node in cluster.nodes.items()}
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


# Leadsman offline: places and backups of all bounded pods together, as `leadsman plan optimise` plans them.


class Offline:
    """A Policy. Pods without a bound come last, each where most stays free. work 0, or no solver: the greedy plan."""

    def __init__(self, settings: BackupSettings, work: float, seed: int, seconds: float) -> None:
        self._settings, self._work, self._seed, self._seconds = settings, work, seed, seconds

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        modelled = model_cluster(Situation(cluster, inputs), self._settings)
        choices, remark = greedy_choices(modelled.problem, modelled.start), "greedy"
        if self._work and modelled.problem.pods and solver.is_installed():
            found = solver.optimise(modelled.problem, choices, self._seed, self._work, self._seconds, lambda _: None)
            choices, remark = found.choices, str(found.ended)
            if found.reserved_bound and found.ended is not Ended.PROVEN:
                remark += f", reserve at most {found.score.reserved / found.reserved_bound - 1:.1%} over the least"
        if modelled.cut:
            remark += f"; {modelled.cut} pods had some of their places only"
        plan = plan_of_choices(modelled, choices)
        at = score(modelled.problem, choices)
        placed = plan.situation.cluster
        for pod in placed.unbound_pods:
            held = with_placeholders(placed, plan.backups.reserves)
            allowed = () if pod.uid in plan.unplaced else Feasibility(held, pod).nodes
            if allowed:
                placed = placed.with_pod(pod, max(sorted(allowed), key=partial(least_allocated, held, pod)))
        moves = at.moves if at else 0
        return Placement(placed, with_workloads_of(placed, inputs), plan.backups, moves, remark=remark)
