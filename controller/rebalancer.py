"""Makes plans of re-balancing now and then, and hands them over as people do: one at a time, while none runs."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from controller.config_maps import DocumentObject
from controller.healed_cluster import HealedCluster
from controller.keeper import Keeper, Tools, counter, gauge
from controller.replacement import Replacement
from leadsman.cluster.model import Cluster
from leadsman.kube.errors import ApiError
from leadsman.planning.rebalance.planner import RebalanceSettings, plan_rebalance
from leadsman.published.documents import BadDocument
from leadsman.published.move_plan import MOVE_PLAN, HandedOverPlan, MovePlan
from leadsman.published.moves import RunState
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)


class Rebalancer(Keeper):
    """Plans, if no plan is being carried out, and hands over what is worth it.

    replacement: carries plans out, and knows which pods were moved.
    plan: the last one; None before the first. plans: how many were handed over.
    """

    name = "rebalance"
    every_seconds = 300.0
    """Measurements follow a move within a minute or two, and the pressure's averages are of minutes."""

    def __init__(
        self, tools: Tools, healed: HealedCluster, replacement: Replacement, settings: RebalanceSettings
    ) -> None:
        super().__init__(tools)
        self.plan: MovePlan | None = None
        self.plans = 0
        self._healed, self._replacement, self._settings = healed, replacement, settings
        self._object = DocumentObject(tools.client, tools.namespace, MOVE_PLAN)
        self._due_at = tools.clock() + self.every_seconds
        self._problem = ProblemLog(
            _log,
            "controller cannot hand over its plan of re-balancing; it plans again in 5 minutes",
            "controller hands over its plans of re-balancing again",
        )

    async def keep(self) -> None:
        cluster = self._healed.current
        if cluster is None or self._is_busy():
            self.hurry()
            return
        plan = self.plan = await self._plan(cluster)
        for each in plan.left_out:
            _log.info("pod %s/%s is not re-balanced: %s", each.namespace, each.name, each.why)
        if not plan.moves:
            return
        try:
            await self._object.read()
            if not self._is_busy():
                await self._object.write(HandedOverPlan(plan))
                self.plans += 1
        except (ApiError, BadDocument) as error:
            self._problem.report(error)
        else:
            self._problem.clear()

    def page(self) -> Mapping[str, Any]:
        """The last plan: its moves, and the pods that stay although another node serves them better."""
        moves, left_out = (self.plan.moves, self.plan.left_out) if self.plan else ((), ())
        return {
            "moves": {f"{each.namespace}/{each.name}": each.reason for each in moves},
            "left_out": {f"{each.namespace}/{each.name}": each.why for each in left_out},
        }

    def families(self) -> Iterator[Metric]:
        yield counter("leadsman_rebalance_plans", "Plans of re-balancing that were handed over.", self.plans)
        yield gauge(
            "leadsman_rebalance_plan_seconds", "Seconds that planning re-balancing took last.", self.plan_seconds
        )

    def _is_busy(self) -> bool:
        """Whether pods are being moved, or a plan waits or is paused; also before that is known."""
        plan = self._replacement.plan
        if plan is None or plan.memory.state.moves:
            return True
        progress = plan.memory.state.progress
        return progress is not None and progress.state in (RunState.RUNNING, RunState.PAUSED)

    async def _plan(self, cluster: Cluster) -> MovePlan:
        carried_out = self._replacement.plan
        departures = carried_out.memory.state.departures if carried_out else ()
        inputs, backups, now = self.tools.inputs(), self._healed.settings.backups, self.tools.wall_clock()
        unhealthy = self._healed.unhealthy
        return await self.make_plan(
            lambda: plan_rebalance(cluster, inputs, departures, self._settings, backups, now, now, unhealthy)
        )
