"""Executes re-placement: holds room with pods of its own, evicts through the Eviction API, and says what came of it.

What a plan says is done only after the state that it comes with is written, so a new leader goes on with a move, and a
budget that is spent stays spent.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from typing import Any

import msgspec
from msgspec import structs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.config_maps import VersionedConfigMap
from controller.event_recorder import EventRecorder
from controller.placeholder_pod import PlaceholderSettings, placeholder_body
from leadsman.cluster.model import Cluster
from leadsman.decision.cache import DecisionCache
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.objects import ObjectReference
from leadsman.kube.resources import PODS
from leadsman.planning.backups.placeholders import CreatePlaceholder
from leadsman.planning.recovery.model import Hold
from leadsman.planning.replacement import codec
from leadsman.planning.replacement.model import (
    EndedMove,
    EvictPod,
    HoldRoom,
    Move,
    MoveResult,
    MoveStep,
    ReleaseHold,
    ReplacementAction,
    ReplacementMemory,
    ReplacementPlan,
    ReplacementSettings,
    ReplacementState,
)
from leadsman.planning.replacement.plan import plan_replacements
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

CONFIG_MAP, KEY = "leadsman-replacement", "state.json"

PLAN_INTERVAL_SECONDS = 2.0
PLAN_SHARE = 0.2
"""Most of the time that planning may take: after a long plan the pause is longer."""

HOLD_LASTS_SECONDS = 600
"""A holding pod ends by itself after this, also when no controller is left that would release it."""

RETRY_EVICTION_SECONDS = 5.0
"""After an eviction that a budget refused, when the API server names no other time."""

MAX_PODS_SHOWN = 200

MOVE_HOLD_PREFIX = "move of "

_EVENT_REASONS = {
    MoveResult.REPLACED: "Replaced",
    MoveResult.ROLLED_BACK: "ReplacementRolledBack",
    MoveResult.RETURNED: "ReplacementReturned",
    MoveResult.NOT_LANDED: "ReplacementNotLanded",
}
"""A move that was cancelled leaves everything as it was, and no Event."""


class Replacement:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    cluster: None while it is not known.
    recorder: None: a dry run, which only plans.
    unhealthy: dead and suspect nodes.
    publishes_hold: whether extenders can know of the holds of this pod's move, by its UID. Its eviction waits for that,
        because its owner makes a new pod at once, which would go back.
    plan: the last one; None before the first.
    results: (action, result) → how often; result: done, exists, gone, conflict, refused or failed.
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
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.plan: ReplacementPlan | None = None
        self.plan_seconds = 0.0
        self.results: Counter[tuple[str, str]] = Counter()
        self.ended: Counter[MoveResult] = Counter()
        self._client, self._cluster, self._inputs, self._unhealthy = client, cluster, inputs, unhealthy
        self._recorder, self._is_leader, self._settings, self._placeholders = (
            recorder,
            is_leader,
            settings,
            placeholders,
        )
        self._clock, self._wall_clock, self._publishes_hold = clock, wall_clock, publishes_hold
        self._config_map = VersionedConfigMap(client, namespace, CONFIG_MAP, KEY)
        self._cache, self._next_plan_at = DecisionCache(), 0.0
        self._memory: ReplacementMemory | None = None
        self._reported: dict[str, str] = {}
        self._proposed: dict[str, Move] = {}
        self._evict_not_before: dict[str, float] = {}
        self._problem = ProblemLog(
            _log,
            f"controller cannot keep ConfigMap {CONFIG_MAP}; it moves no pods until it can",
            f"controller keeps ConfigMap {CONFIG_MAP} again",
        )
        self._act_problem = ProblemLog(
            _log, "controller cannot move a pod; it tries again", "controller can move pods again"
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
            plan = await self._plan_now(cluster, before)
            if self._recorder and plan.memory.state != before.state:
                if not self._is_leader():
                    return
                await self._config_map.write(codec.encode(plan.memory.state).decode())
        except (ApiError, codec.StateError) as error:
            self._memory = None  # read again: another replica may have written
            self._problem.report(error)
            return
        self._problem.clear()
        self.plan = plan
        if self._recorder is None:
            self._propose(plan)
            return
        self._memory = plan.memory
        self._tell(plan, self._recorder)
        for action in plan.actions:
            if not self._is_leader() or not await self._execute(action):
                return
        self._act_problem.clear()

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Room that extenders are to keep from others while a pod moves: on its new node until the new pod is there,
        and on the node that it leaves, for the pending pod that room is made for."""
        cluster, memory = self._cluster(), self._memory
        holds: list[Hold] = []
        for move in memory.state.moves if memory and cluster else ():
            until, uid = move.since + self._settings.landing_seconds, move_hold_uid(move.pod_uid)
            if move.step in (MoveStep.EVICTING, MoveStep.LANDING):
                holds.append(Hold(move.to_node, move.owner_uid, move.requests, until, uid))
            pending = cluster.pods.get(move.for_uid) if cluster else None
            if pending is not None and move.step is not MoveStep.HOLDING:
                holds.append(Hold(move.from_node, pending.owner_uid, pending.requests, until, uid))
        return tuple(holds)

    def page(self) -> dict[str, Any]:
        """Moves under way, pods without a fix and pods that wait, as JSON values."""
        if self.plan is None:
            return {"none": "nothing is planned yet"}
        state, reports = self.plan.memory.state, list(self.plan.no_fix.values())
        moves = state.moves if self._recorder else tuple(self._proposed.values())
        return {
            "moves" if self._recorder else "would_move": [_shown(move) for move in moves],
            "no_fix": {f"{each.namespace}/{each.name}": str(each) for each in reports[:MAX_PODS_SHOWN]},
            "waiting": dict(list(self.plan.waiting.items())[:MAX_PODS_SHOWN]),
            "departures": msgspec.to_builtins(state.departures),
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
        for (action, outcome), count in self.results.items():
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

    async def _load(self) -> ReplacementMemory:
        if self._memory is None:
            text = await self._config_map.read() if self._recorder else None
            state = (
                ReplacementState() if text is None else codec.decode(text.encode() if isinstance(text, str) else text)
            )
            self._memory = ReplacementMemory(state)
        return self._memory

    async def _plan_now(self, cluster: Cluster, before: ReplacementMemory) -> ReplacementPlan:
        began = self._clock()
        inputs, avoid = structs.replace(self._inputs(), cache=self._cache), frozenset(self._unhealthy())
        plan = await asyncio.to_thread(
            plan_replacements, cluster, inputs, before, self._settings, self._wall_clock(), avoid
        )
        self.plan_seconds = self._clock() - began
        self._next_plan_at = self._clock() + max(PLAN_INTERVAL_SECONDS, self.plan_seconds / PLAN_SHARE)
        return plan

    def _propose(self, plan: ReplacementPlan) -> None:
        """What a dry run would do: nothing that it plans ever begins."""
        self._memory = ReplacementMemory(ReplacementState(), plan.memory.troubles)
        still = {uid: move for uid, move in self._proposed.items() if uid in plan.memory.troubles}
        new = {move.for_uid or move.pod_uid: move for move in plan.memory.state.moves}
        for uid, move in new.items():
            if uid not in still:
                _log.info("dry run: would move pod %s/%s: %s", move.namespace, move.name, move.reason)
        self._proposed = still | new

    async def _execute(self, action: ReplacementAction) -> bool:
        """Whether the next action may be tried."""
        verb = type(action).__name__
        try:
            result = await self._execute_one(action)
        except TooManyRequests as error:
            if isinstance(action, EvictPod):
                wait = error.retry_after_seconds or RETRY_EVICTION_SECONDS
                self._evict_not_before[action.uid] = self._clock() + wait
            result = "refused"
            _log.warning("API server refuses %s now: %s", verb, error)
        except NotFound:
            result = "gone"
        except Conflict:
            result = "exists" if isinstance(action, HoldRoom) else "conflict"
        except Unavailable as error:
            self.results[verb, "failed"] += 1
            self._act_problem.report(error)
            return False
        except ApiError as error:
            result = "failed"
            self._act_problem.report(error)
        self.results[verb, result] += 1
        return True

    async def _execute_one(self, action: ReplacementAction) -> str:
        match action:
            case HoldRoom():
                await self._client.create(PODS.path(PLACEHOLDER_NAMESPACE), hold_body(action, self._placeholders))
                _log.info("holding %s", action.reason)
            case ReleaseHold():
                await self._client.delete(PODS.path(action.namespace, action.name), action.uid)
                _log.info("released %s: %s", action.name, action.reason)
            case EvictPod():
                refused_until = self._evict_not_before.get(action.uid, 0.0)
                if self._clock() < refused_until or not self._publishes_hold(action.uid):
                    return "waits"
                await self._client.send(ApiRequest("POST", _eviction_path(action), body=eviction_body(action)))
                self._evict_not_before.pop(action.uid, None)
                _log.warning("evicted pod %s/%s: %s", action.namespace, action.name, action.reason)
        return "done"

    def _tell(self, plan: ReplacementPlan, recorder: EventRecorder) -> None:
        """Events: how moves ended, and for each pod without a fix why, once for each reason."""
        for ended in plan.ended:
            self.ended[ended.result] += 1
            self._evict_not_before.pop(ended.move.pod_uid, None)
            _log.info("move of pod %s/%s: %s: %s", ended.move.namespace, ended.move.name, ended.result, ended.note)
            if ended.result in _EVENT_REASONS:
                _record_end(ended, recorder)
        for uid, report in plan.no_fix.items():
            if self._reported.get(uid) != report.why:
                _log.warning("pod %s/%s: no fix: %s", report.namespace, report.name, report)
                about = ObjectReference("Pod", report.namespace, report.name, uid)
                recorder.record(about, "NoFix", str(report), "Replace", warning=True)
        self._reported = {uid: report.why for uid, report in plan.no_fix.items()}


def move_hold_uid(pod_uid: str) -> str:
    """The `pod_uid` of the holds of a move, by which they are told from those of a failover."""
    return f"{MOVE_HOLD_PREFIX}{pod_uid}"


def hold_body(action: HoldRoom, settings: PlaceholderSettings) -> dict[str, Any]:
    """The holding pod to create. Its name is its purpose, so that a second one is never made for it."""
    placeholder = CreatePlaceholder(action.node, action.requests, action.tolerations, action.reason)
    body = placeholder_body(placeholder, settings)
    labels = {HELD_FOR_LABEL: action.for_uid, "app.kubernetes.io/part-of": "leadsman"}
    metadata = {"name": f"hold-{action.for_uid}", "namespace": PLACEHOLDER_NAMESPACE, "labels": labels}
    spec = {**body["spec"], "activeDeadlineSeconds": HOLD_LASTS_SECONDS}
    return {**body, "metadata": metadata, "spec": spec}


def eviction_body(action: EvictPod) -> dict[str, Any]:
    """Of policy/v1. Conflict when the pod of this name is another one by now."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": action.name, "namespace": action.namespace},
        "deleteOptions": {"preconditions": {"uid": action.uid}},
    }


def _eviction_path(action: EvictPod) -> str:
    return PODS.path(action.namespace, action.name, "eviction")


def _record_end(ended: EndedMove, recorder: EventRecorder) -> None:
    move, warning = ended.move, ended.result is not MoveResult.REPLACED
    note = f"{move.reason}; from node {move.from_node}: {ended.note}"
    about = ObjectReference("Pod", move.namespace, move.name, move.pod_uid)
    recorder.record(about, _EVENT_REASONS[ended.result], note, "Replace", warning=warning)
    if move.for_uid:
        namespace, _, name = move.for_name.partition("/")
        note = f"pod {move.namespace}/{move.name} was to make room on node {move.from_node}: {ended.note}"
        about = ObjectReference("Pod", namespace, name, move.for_uid)
        recorder.record(about, _EVENT_REASONS[ended.result], note, "Replace", warning=warning)


def _shown(move: Move) -> dict[str, Any]:
    return {
        "pod": f"{move.namespace}/{move.name}",
        "from": move.from_node,
        "to": move.to_node,
        "step": move.step.value,
        "since": move.since,
        "reason": move.reason,
    }
