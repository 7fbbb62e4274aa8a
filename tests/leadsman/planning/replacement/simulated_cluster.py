"""Executes plans of re-placement on a Cluster as an API server, kube-scheduler and owners would, a second at a time."""

from collections.abc import Callable
from itertools import count

from msgspec.structs import replace

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.planning import replacement_plan
from leadsman.planning.moves.mover import EvictPod, HoldRoom, MoveAction, ReleaseHold
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.situation import Situation
from leadsman.published.moves import HandedOverPlan
from tests.leadsman.planning.backups.random_clusters import Rtts, inputs_of

GRACE_SECONDS = 3.0
"""How long an evicted pod takes to end."""

AT_ONCE = replacement_plan.ReplacementSettings(hold_seconds=0.0, look_again_seconds=0.0, per_minute=100)


class SimulatedCluster:
    """choose: of the nodes that may have a pod, the one that gets it."""

    def __init__(
        self,
        cluster: Cluster,
        matrix: Rtts,
        settings: replacement_plan.ReplacementSettings = AT_ONCE,
        choose: Callable[[ClusterPod, list[str]], str] = lambda _, nodes: nodes[-1],
    ) -> None:
        self.cluster, self.matrix, self.settings, self.now = cluster, matrix, settings, 1000.0
        self.memory, self.plans = replacement_plan.ReplacementMemory(), list[replacement_plan.ReplacementPlan]()
        self.handed_over: HandedOverPlan | None = None
        self.limits, self.avoid = MovePlanLimits(), frozenset[str]()
        self.evicted: list[str] = []
        self.owners_make_new_pods = True
        self._choose, self._ends = choose, dict[str, float]()
        self._numbers = count()

    @property
    def inputs(self) -> DecisionInputs:
        return inputs_of(self.cluster, self.matrix)

    def plan(self) -> replacement_plan.ReplacementPlan:
        """Plans, and remembers."""
        plan = replacement_plan.plan_replacements(
            Situation(self.cluster, self.inputs),
            self.memory,
            self.settings,
            self.now,
            self.avoid,
            handed_over=self.handed_over,
            limits=self.limits,
        )
        self.memory = plan.memory
        self.plans.append(plan)
        return plan

    def second(self) -> replacement_plan.ReplacementPlan:
        """Plans, executes, and lets the cluster go on."""
        plan = self.plan()
        for action in plan.actions:
            self.execute(action)
        self._schedule()
        self._end_pods()
        self.now += 1
        return plan

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second()

    def execute(self, action: MoveAction) -> None:
        match action:
            case HoldRoom():
                uid = f"hold-{action.for_uid}"
                labels = {HELD_FOR_LABEL: action.for_uid, "node": action.node}
                pod = ClusterPod(uid, PLACEHOLDER_NAMESPACE, uid, requests=action.requests, labels=labels, priority=-20)
                self.cluster = self.cluster.with_pod(pod, "")
            case ReleaseHold():
                self.cluster = self.cluster.without_pod(action.uid)
            case EvictPod():
                self.evict(self.cluster.pods[action.uid])

    def evict(self, pod: ClusterPod) -> None:
        self.evicted.append(pod.uid)
        self._ends.setdefault(pod.uid, self.now + GRACE_SECONDS)
        number = next(self._numbers)
        new = replace(pod, uid=f"{pod.uid}+{number}", name=f"{pod.name}x{number}", node="", phase="Pending")
        self.cluster = self.cluster.with_pod(replace(pod, terminating=True), pod.node)
        if self.owners_make_new_pods:
            self.cluster = self.cluster.with_pod(new, "")

    def _schedule(self) -> None:
        for pod in sorted(self.cluster.unbound_pods, key=lambda each: (-each.priority, each.uid)):
            nodes = self._may_have(pod)
            if nodes:
                self.cluster = self.cluster.with_pod(replace(pod, phase="Running"), self._choose(pod, nodes))

    def _may_have(self, pod: ClusterPod) -> list[str]:
        """The nodes that kube-scheduler with our extender would bind the pod to."""
        nodes = filter_nodes(PodInfo.of(pod), Feasibility(self.cluster, pod).nodes, self.inputs).kept
        return [node for node in nodes if HELD_FOR_LABEL not in pod.labels or node == pod.labels["node"]]

    def _end_pods(self) -> None:
        for uid, at in list(self._ends.items()):
            if at <= self.now:
                del self._ends[uid]
                self.cluster = self.cluster.without_pod(uid)
