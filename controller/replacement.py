"""Moves pods: plans each step, keeps the state, has the actions executed, and says what came of it.

What a plan says is done only after the state that it comes with is written, so a new leader goes on with a move, and a
budget that is spent stays spent.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

import msgspec
from msgspec import structs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.config_maps import DocumentObject
from controller.event_recorder import EventRecorder
from controller.move_actions import MoveActions
from controller.move_events import record_end, record_plan
from controller.placeholder_pod import PlaceholderSettings
from leadsman.cluster.model import Cluster
from leadsman.decision.cache import DecisionCache
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.objects import ObjectReference
from leadsman.planning.moves.model import MoveResult
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.replacement.model import ReplacementMemory, ReplacementPlan, ReplacementSettings
from leadsman.planning.replacement.plan import plan_replacements
from leadsman.published.documents import BadDocument
from leadsman.published.move_plan import MOVE_PLAN, HandedOverPlan
from leadsman.published.moves import MOVES, Move, MoverState, MoveStep, Outcome
from leadsman.published.self_healing import Hold
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

PLAN_INTERVAL_SECONDS = 2.0
PLAN_SHARE = 0.2
"""Most of the time that planning may take: after a long plan the pause is longer."""

STEER_SECONDS = 60.0
"""For so long an owner's new pod may go nowhere but to the room that is held for it."""

MAX_PODS_SHOWN = 200

MOVE_HOLD_PREFIX = "move of "


class Replacement:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    cluster: None while it is not known.
    recorder: None: a dry run, which only plans.
    unhealthy: dead and suspect nodes.
    publishes_hold: as MoveActions has it.
    move_plan: where plans are handed over, and their limits; None: none is carried out.
    plan: the last one; None before the first.
    ended: result of moves → how many.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        cluster: Callable[[], Cluster | None],
        inputs: Callable[[], DecisionInputs],
        unhealthy: Callable[[], Set[str]],
        recorder: EventRecorder | None,
        is_leader: Callable[[], bool],
        settings: ReplacementSettings,
        placeholders: PlaceholderSettings,
        *,
        publishes_hold: Callable[[str], bool] = lambda _: True,
        move_plan: tuple[DocumentObject[HandedOverPlan], MovePlanLimits] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan: ReplacementPlan | None = None
        self.plan_seconds = 0.0
        self.actions = MoveActions(client, is_leader, placeholders, publishes_hold, clock)
        self.ended: Counter[MoveResult] = Counter()
        self._cluster, self._inputs, self._unhealthy = cluster, inputs, unhealthy
        self._recorder, self._is_leader, self._settings = recorder, is_leader, settings
        self._move_plan = move_plan if recorder else None
        self._clock, self._wall_clock = clock, wall_clock
        self._namespace = namespace
        self._config_map = DocumentObject(client, namespace, MOVES)
        self._cache, self._next_plan_at = DecisionCache(), 0.0
        self._memory: ReplacementMemory | None = None
        self._reported: dict[str, str] = {}
        self._proposed: dict[str, Move] = {}
        self._problem = ProblemLog(
            _log,
            f"controller cannot keep ConfigMap {MOVES.config_map}; it moves no pods until it can",
            f"controller keeps ConfigMap {MOVES.config_map} again",
        )
        self._plan_problem = ProblemLog(
            _log,
            f"controller cannot read the plan in ConfigMap {MOVE_PLAN.config_map}, and carries none out",
            f"controller reads ConfigMap {MOVE_PLAN.config_map} again",
        )

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self.plan, self._memory, self._proposed, self._reported = None, None, {}, {}

    async def sync(self) -> None:
        """Plans, if it is time to, writes the state if it changed, and then acts."""
        cluster = self._cluster()
        if cluster is None or self._clock() < self._next_plan_at:
            return
        try:
            before = await self._load()
            plan = await self._plan_now(cluster, before, await self._handed_over())
            if self._recorder and plan.memory.state != before.state:
                if not self._is_leader():
                    return
                await self._config_map.write(plan.memory.state)
        except (ApiError, BadDocument) as error:
            self._memory = None  # read again: another replica may have written
            self._problem.report(error)
            return
        self._problem.clear()
        self.plan = plan
        if self._recorder is None:
            self._propose(plan)
            return
        self._memory = plan.memory
        self._tell(before.state, plan, self._recorder)
        await self.actions.execute(plan.actions)

    @property
    def holds(self) -> tuple[Hold, ...] | None:
        """Room that extenders are to keep from others while a pod moves: on its new node until the new pod is there,
        and on the node that it leaves, for the pending pod that room is made for. None: the moves are not read yet."""
        cluster, memory = self._cluster(), self._memory
        if cluster is None or memory is None:
            return None
        holds: list[Hold] = []
        for move in memory.state.moves:
            until, uid = move.since + self._settings.landing_seconds, move_hold_uid(move.pod_uid)
            if move.step in (MoveStep.EVICTING, MoveStep.LANDING):
                steers = self._wall_clock() < move.since + STEER_SECONDS
                holds.append(Hold(move.to_node, move.owner_uid, move.requests, until, uid, only=steers))
            pending = cluster.pods.get(move.for_uid)
            if pending is not None and move.step is not MoveStep.HOLDING:
                holds.append(Hold(move.from_node, pending.owner_uid, pending.requests, until, uid))
        return tuple(holds)

    @property
    def moves(self) -> Sequence[Move]:
        """Under way; of a dry run those that would be."""
        if self.plan is None:
            return ()
        return self.plan.memory.state.moves if self._recorder else tuple(self._proposed.values())

    def page(self) -> dict[str, Any]:
        """Moves under way, pods without a fix and pods that wait, as JSON values."""
        if self.plan is None:
            return {"none": "nothing is planned yet"}
        state, reports = self.plan.memory.state, list(self.plan.no_fix.values())
        return {
            "moves" if self._recorder else "would_move": [_shown(move) for move in self.moves],
            "no_fix": {f"{each.namespace}/{each.name}": str(each) for each in reports[:MAX_PODS_SHOWN]},
            "waiting": dict(list(self.plan.waiting.items())[:MAX_PODS_SHOWN]),
            "departures": msgspec.to_builtins(state.departures),
            "plan": msgspec.to_builtins(state.progress),
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        moves = CounterMetricFamily("leadsman_replacements", "Moves of pods that ended, by result.", labels=["result"])
        for result in MoveResult:
            moves.add_metric([result.value], self.ended[result])
        yield moves
        actions = CounterMetricFamily(
            "leadsman_replacement_actions", "Actions of moves, by what and result.", labels=["action", "result"]
        )
        for (action, outcome), count in self.actions.results.items():
            actions.add_metric([action, outcome], count)
        yield actions
        plan = self.plan
        under_way, without = (len(plan.memory.state.moves), len(plan.no_fix)) if plan else (0, 0)
        yield GaugeMetricFamily("leadsman_replacements_under_way", "Pods that are being moved.", under_way)
        yield GaugeMetricFamily(
            "leadsman_pods_without_fix",
            "Pods over their delay bound, or pending, that nothing can be done for.",
            without,
        )
        yield GaugeMetricFamily(
            "leadsman_replacement_plan_seconds", "Seconds that planning moves took last.", self.plan_seconds
        )
        progress = plan.memory.state.progress if plan else None
        states = GaugeMetricFamily(
            "leadsman_move_plan_state", "1 for the state of the plan of moves that was handed over.", labels=["state"]
        )
        planned = GaugeMetricFamily(
            "leadsman_move_plan_moves", "Moves of the plan that was handed over, by outcome.", labels=["outcome"]
        )
        if progress is not None:
            states.add_metric([progress.state.value], 1)
            for each in Outcome:
                planned.add_metric([each.value], progress.count(each))
        yield states
        yield planned

    async def _load(self) -> ReplacementMemory:
        if self._memory is None:
            state = await self._config_map.read() if self._recorder else None
            self._memory = ReplacementMemory(state or MoverState())
        return self._memory

    async def _handed_over(self) -> HandedOverPlan | None:
        if self._move_plan is None:
            return None
        try:
            handed_over = await self._move_plan[0].read()
        except BadDocument as error:
            self._plan_problem.report(error)
            return None
        self._plan_problem.clear()
        return handed_over

    async def _plan_now(
        self, cluster: Cluster, before: ReplacementMemory, handed_over: HandedOverPlan | None
    ) -> ReplacementPlan:
        began = self._clock()
        inputs, avoid = structs.replace(self._inputs(), cache=self._cache), frozenset(self._unhealthy())
        limits = self._move_plan[1] if self._move_plan else MovePlanLimits()
        plan = await asyncio.to_thread(
            plan_replacements,
            cluster,
            inputs,
            before,
            self._settings,
            self._wall_clock(),
            avoid,
            handed_over,
            limits,
        )
        self.plan_seconds = self._clock() - began
        self._next_plan_at = self._clock() + max(PLAN_INTERVAL_SECONDS, self.plan_seconds / PLAN_SHARE)
        return plan

    def _propose(self, plan: ReplacementPlan) -> None:
        """What a dry run would do: nothing that it plans ever begins."""
        self._memory = ReplacementMemory(MoverState(), plan.memory.troubles)
        still = {uid: move for uid, move in self._proposed.items() if uid in plan.memory.troubles}
        new = {move.for_uid or move.pod_uid: move for move in plan.memory.state.moves}
        for uid, move in new.items():
            if uid not in still:
                _log.info("dry run: would move pod %s/%s: %s", move.namespace, move.name, move.reason)
        self._proposed = still | new

    def _tell(self, before: MoverState, plan: ReplacementPlan, recorder: EventRecorder) -> None:
        """Events: how moves ended, what became of a plan, and for each pod without a fix why, once for each reason."""
        progress = plan.memory.state.progress
        if progress is not None and (before.progress is None or before.progress.state is not progress.state):
            record_plan(progress, self._namespace, recorder)
        for ended in plan.ended:
            self.ended[ended.result] += 1
            self.actions.forget(ended.move.pod_uid)
            _log.info("move of pod %s/%s: %s: %s", ended.move.namespace, ended.move.name, ended.result, ended.note)
            record_end(ended, recorder)
        for uid, report in plan.no_fix.items():
            if self._reported.get(uid) != report.why:
                _log.warning("pod %s/%s: no fix: %s", report.namespace, report.name, report)
                about = ObjectReference("Pod", report.namespace, report.name, uid)
                recorder.record(about, "NoFix", str(report), "Replace", warning=True)
        self._reported = {uid: report.why for uid, report in plan.no_fix.items()}


def move_hold_uid(pod_uid: str) -> str:
    """The `pod_uid` of the holds of a move, by which they are told from those of a failover."""
    return f"{MOVE_HOLD_PREFIX}{pod_uid}"


def _shown(move: Move) -> dict[str, Any]:
    return {
        "pod": f"{move.namespace}/{move.name}",
        "from": move.from_node,
        "to": move.to_node,
        "step": move.step.value,
        "since": move.since,
        "reason": move.reason,
    }
