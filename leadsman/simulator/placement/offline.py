"""Leadsman offline: places and backups of all bounded pods together, as `leadsman plan optimise` plans them."""

from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.optimise.answer import plan_of_choices
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.greedy import balanced, greedy_choices
from leadsman.planning.optimise.problem import score
from leadsman.planning.optimise.search import Ended
from leadsman.planning.situation import Situation, with_workloads_of
from leadsman.simulator.placement.placement import Placement, with_placeholders
from leadsman.simulator.placement.spreading import spread
from leadsman.simulator.solver import parent
from leadsman.simulator.solver.job import Job


class Offline:
    """A Policy. Pods without a bound come last, by default spreading. work 0, or no solver: the greedy plan."""

    def __init__(self, settings: BackupSettings, work: float, seed: int, seconds: float) -> None:
        self._settings, self._work, self._seed, self._seconds = settings, work, seed, seconds

    def __call__(self, cluster: Cluster, inputs: DecisionInputs) -> Placement:
        modelled = model_cluster(Situation(cluster, inputs), self._settings)
        choices, remark = greedy_choices(modelled.problem, modelled.start), "greedy"
        if self._work and modelled.problem.pods and parent.solver_installed():
            found = parent.run(Job(modelled.problem, choices, self._seed, self._work, self._seconds), quiet=True)
            choices, remark = found.choices, str(found.ended)
            if found.reserved_bound and found.ended is not Ended.PROVEN:
                remark += f", reserve at most {found.score.reserved / found.reserved_bound - 1:.1%} over the least"
        if modelled.cut:
            remark += f"; {modelled.cut} pods had some of their places only"
        choices = balanced(modelled.problem, choices)
        plan = plan_of_choices(modelled, choices)
        at = score(modelled.problem, choices)
        placed = plan.situation.cluster
        for pod in placed.unbound_pods:
            if pod.uid not in plan.unplaced and (node := spread(with_placeholders(placed, plan.backups.reserves), pod)):
                placed = placed.with_pod(pod, node)
        moves = at.moves if at else 0
        return Placement(placed, with_workloads_of(placed, inputs), plan.backups, moves, remark=remark)
