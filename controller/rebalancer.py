"""Makes plans of re-balancing now and then, and hands them over as people do: one at a time, while none runs."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Set
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.config_maps import DocumentObject
from controller.replacement import Replacement
from leadsman.cluster.model import Cluster
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.errors import ApiError
from leadsman.planning.backups.model import BackupSettings
from leadsman.planning.rebalance.planner import RebalanceSettings, plan_rebalance
from leadsman.published.documents import BadDocument
from leadsman.published.move_plan import HandedOverPlan, MovePlan
from leadsman.published.moves import RunState
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 300.0
"""Between two plans: measurements follow a move within a minute or two, and the pressure's averages are of minutes."""


class Rebalancer:
    """Call `sync` in turn while this replica leads.

    replacement: carries plans out, and knows which pods were moved.
    unhealthy: dead and suspect nodes.
    plan: the last one; None before the first. plans: how many were handed over.
    """

    def __init__(
        self,
        plan_object: DocumentObject[HandedOverPlan],
        cluster: Callable[[], Cluster | None],
        inputs: Callable[[], DecisionInputs],
        unhealthy: Callable[[], Set[str]],
        replacement: Replacement,
        settings: RebalanceSettings,
        backups: BackupSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan: MovePlan | None = None
        self.plans, self.plan_seconds = 0, 0.0
        self._object, self._cluster, self._inputs, self._unhealthy = plan_object, cluster, inputs, unhealthy
        self._replacement, self._settings, self._backups = replacement, settings, backups
        self._clock, self._wall_clock, self._next_at = clock, wall_clock, clock() + INTERVAL_SECONDS
        self._problem = ProblemLog(
            _log,
            "controller cannot hand over its plan of re-balancing; it plans again in 5 minutes",
            "controller hands over its plans of re-balancing again",
        )

    async def sync(self) -> None:
        """Plans, if it is time to and no plan is being carried out, and hands over what is worth it."""
        cluster = self._cluster()
        if cluster is None or self._clock() < self._next_at or self._is_busy():
            return
        self._next_at = self._clock() + INTERVAL_SECONDS
        plan = self.plan = await self._plan_now(cluster)
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

    def page(self) -> dict[str, Any]:
        """The last plan: its moves, and the pods that stay although another node serves them better."""
        moves, left_out = (self.plan.moves, self.plan.left_out) if self.plan else ((), ())
        return {
            "moves": {f"{each.namespace}/{each.name}": each.reason for each in moves},
            "left_out": {f"{each.namespace}/{each.name}": each.why for each in left_out},
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield CounterMetricFamily(
            "leadsman_rebalance_plans", "Plans of re-balancing that were handed over.", self.plans
        )
        yield GaugeMetricFamily(
            "leadsman_rebalance_plan_seconds", "Seconds that planning re-balancing took last.", self.plan_seconds
        )

    def _is_busy(self) -> bool:
        """Whether pods are being moved, or a plan waits or is paused; also before that is known."""
        plan = self._replacement.plan
        if plan is None or plan.memory.state.moves:
            return True
        progress = plan.memory.state.progress
        return progress is not None and progress.state in (RunState.RUNNING, RunState.PAUSED)

    async def _plan_now(self, cluster: Cluster) -> MovePlan:
        plan = self._replacement.plan
        departures = plan.memory.state.departures if plan else ()
        began, now = self._clock(), self._wall_clock()
        made = await asyncio.to_thread(
            plan_rebalance,
            cluster,
            self._inputs(),
            departures,
            self._settings,
            self._backups,
            now,
            now,
            frozenset(self._unhealthy()),
        )
        self.plan_seconds = self._clock() - began
        return made
