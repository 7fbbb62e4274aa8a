"""Keeps the labels of nodes as telemetry policies say: plans, patches the nodes and says so in Events.

It is level-triggered: after a restart or a change of the leader the plan is made from the nodes themselves again, and
from the record there of when their labels changed.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from prometheus_client.core import Metric

from controller.keeper import STALL_TIMEOUT_SECONDS, Keeper, NodeCache, Tools
from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX, PolicyKey
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, NotFound, NotLeader, Unavailable
from leadsman.kube.objects import ObjectMeta, ObjectReference, PartialObjectMetadata
from leadsman.kube.resources import NODES
from leadsman.planning.labels.label_plan import LabelAction, LabelLimits, LabelPlan, NodePatch, NodeView, PlanMemory
from leadsman.planning.labels.label_planner import plan_labels
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_LOGGED_ACTIONS = 20


# Patches nodes. What the API server refuses is tried again at growing intervals.

_refusals_log = logging.getLogger(f"{__name__}.refusals")
_refusals_log.addFilter(LogLimit())

MAX_CONCURRENT_PATCHES = 16

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 300.0
"""The pause after a failed attempt begins with the first and doubles up to the longest."""

MAX_REFUSED = 20_000
"""Remembered; the oldest goes, and its change is tried at once. 4 MB."""

_LONGEST_REASON = 200


def _excess(metadata: ObjectMeta) -> str:
    """Any label may be somebody's that has the key of a mark; of the annotations only ours count."""
    labels = metadata.labels
    if labels.cut:
        return f"it has more than {labels.max_bytes:,} bytes of labels; remove those that nobody needs"
    return metadata.annotations.excess


class _Refused(Struct, frozen=True):
    reason: str
    pause_seconds: float
    due_at: float


class NodePatcher:
    """Applies patches, many at once, at a limited rate.

    client: writes only while this replica leads.
    rate: of patches.
    results: done, gone, conflict, refused, not_leader or failed → patches.

    A call that gets 429 waits as its Retry-After says, and the others wait with it. When the API server does not
    answer, or this replica does not lead any more, the rest is left for the next plan: a hundred deadlines would take
    minutes.
    A patch that it refuses is applied policy by policy, so that one policy's label does not keep back another's; what
    it refuses then is in `refused` until it is due again.
    """

    def __init__(
        self, client: ApiClient, nodes: NodeCache, rate: TokenBucket, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.results: Counter[str] = Counter()
        self._stopped = False
        self._refused: dict[tuple[str, PolicyKey], _Refused] = {}
        self._problem = ProblemLog(
            _log, "controller cannot patch nodes; the next plan tries again", "controller patches nodes again"
        )
        self._client, self._nodes, self._rate, self._clock = client, nodes, rate, clock
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_PATCHES)

    @property
    def refused(self) -> Mapping[tuple[str, PolicyKey], str]:
        """Maps node and policy to why its changes there are not due now."""
        now = self._clock()
        self._refused = {key: one for key, one in self._refused.items() if now < one.due_at + LONGEST_PAUSE_SECONDS}
        return {key: one.reason for key, one in self._refused.items() if now < one.due_at}

    async def apply(self, patches: Sequence[NodePatch]) -> list[NodePatch]:
        """Applies the patches and returns what succeeded. The next plan repeats the others if still needed.

        It takes up no more than the rate allows in half the time after which a turn counts as stalled."""
        self._stopped = False
        most = max(1, int(self._rate.per_second * STALL_TIMEOUT_SECONDS / 2))
        succeeded = await asyncio.gather(*(self._apply_one(patch) for patch in patches[:most]))
        return [part for parts in succeeded for part in parts]

    async def _apply_one(self, patch: NodePatch) -> list[NodePatch]:
        """Returns what succeeded: the patch, or those of its policies that the API server takes."""
        async with self._slots:
            result, _ = await self._try(patch)
            if result == "refused" and len(patch.policies) > 1:
                return await self._apply_by_policy(patch)
        return [patch] if result == "done" else []

    async def _apply_by_policy(self, patch: NodePatch) -> list[NodePatch]:
        succeeded, owned, version = [], patch.owned_before, patch.resource_version
        for policy in patch.policies:
            part = patch.of_policy(policy, owned, version)
            result, response = await self._try(part)
            if response is not None:
                succeeded.append(part)
                owned, version = part.owned, version and response.metadata.resource_version
            elif result != "refused":
                break
        return succeeded

    async def _try(self, patch: NodePatch) -> tuple[str, PartialObjectMetadata | None]:
        """Returns the result, and the node as it is then if that is "done"."""
        if not self._stopped:
            await self._rate.wait()
        if self._stopped:
            return "stopped", None
        result, response = await self._patch(patch)
        self.results[result] += 1
        return result, response

    async def _patch(self, patch: NodePatch) -> tuple[str, PartialObjectMetadata | None]:
        try:
            response = await self._client.patch(
                NODES.path("", patch.node), msgspec.Raw(patch.body()), kind=PartialObjectMetadata
            )
        except NotFound:
            return "gone", None
        except Conflict:
            return "conflict", None
        except NotLeader:
            self._stopped = True
            return "not_leader", None
        except InvalidRequest as error:
            self._report_refusal(patch, error)
            return "refused", None
        except ApiError as error:
            self._stopped = isinstance(error, Unavailable)
            self._problem.report(error)
            return "failed", None
        self._nodes.record_patch(patch.node, response)
        for policy in patch.policies:
            self._refused.pop((patch.node, policy), None)
        self._problem.clear()
        return "done", response

    def _report_refusal(self, patch: NodePatch, error: ApiError) -> None:
        """Reports a refused patch; with several policies in one, nobody knows whose fault it is."""
        if len(patch.policies) != 1:
            return
        key = patch.node, patch.policies[0]
        before = self._refused.pop(key, None)
        pause = min(2 * before.pause_seconds, LONGEST_PAUSE_SECONDS) if before else FIRST_PAUSE_SECONDS
        reason = f"refused, tried again every {pause:g} s or more: {error}"[:_LONGEST_REASON]
        self._refused[key] = _Refused(reason, pause, self._clock() + pause)
        if len(self._refused) > MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        _refusals_log.warning("node %s cannot be labelled as policy %s says: %s", *key, error)


def node_views(nodes: Mapping[str, PartialObjectMetadata]) -> list[NodeView]:
    """Returns what the label plan uses of each node."""
    named = ((name, node.metadata) for name, node in nodes.items())
    return [NodeView(name, meta.labels, meta.annotations, meta.resource_version, _excess(meta)) for name, meta in named]


class LabelReconciler(Keeper):
    """Plans and applies labels.

    plan: the last one, None before the first. Without the CRD of policies it is empty, and labels stay as they are.
    """

    name = "reconcile labels"

    def __init__(
        self, tools: Tools, nodes: NodeCache, patcher: NodePatcher, limits: LabelLimits, has_crd: Callable[[], bool]
    ) -> None:
        super().__init__(tools, [nodes.watched])
        self._has_crd = has_crd
        self.plan: LabelPlan | None = None
        self._nodes, self._patcher = nodes, patcher
        self._limits, self._memory = limits, PlanMemory()
        self._shown: tuple[str, ...] = ()
        self._foreign: tuple[str, ...] = ()

    def forget(self) -> None:
        self.plan, self._memory = None, PlanMemory()

    async def keep(self) -> None:
        if not self._has_crd():
            self.plan = LabelPlan((), (), (), self._memory)
            return
        nodes, refused = self._nodes.current, self._patcher.refused
        views, inputs, memory = node_views(nodes), self.tools.inputs(), self._memory
        now = self.tools.wall_clock()
        self.plan = await self.make_plan(lambda: plan_labels(views, inputs, memory, self._limits, refused, now))
        self._memory = self.plan.memory
        self._log_plan(self.plan)
        if self.tools.is_dry_run:
            return
        for patch in await self._patcher.apply(self.plan.patches):
            if patch.actions:  # one that only corrects the record of our labels has none
                node = nodes.get(patch.node)
                about = ObjectReference("Node", "", patch.node, node.metadata.uid if node else "")
                self.tools.tell(about, event_reason(patch.actions), event_note(patch.actions), "Label")

    def page(self) -> Mapping[str, Any]:
        if self.plan is None:
            return {"none": "this replica has no plan: another one leads, or none is made yet"}
        withheld = [{**msgspec.to_builtins(each.action), "why": each.why} for each in self.plan.withheld]
        actions = msgspec.to_builtins(self.plan.actions)
        return {"actions": actions, "withheld": withheld, "stopped": list(self.plan.stopped)}

    def families(self) -> Iterator[Metric]:
        plan = self.plan
        if plan:
            yield gauge("leadsman_controller_planned_actions", "Actions in the last label plan.", len(plan.actions))
            yield gauge("leadsman_controller_withheld_actions", "Actions that limits withhold now.", len(plan.withheld))
            yield gauge("leadsman_controller_stopped", "Reasons why policies change nothing now.", len(plan.stopped))
        if not self.tools.is_dry_run:
            yield counter(
                "leadsman_controller_patches", "Patches of nodes, by result.", self._patcher.results, "result"
            )

    def _log_plan(self, plan: LabelPlan) -> None:
        """Logs the plan when it differs from the last one."""
        would = "dry run: would " if self.tools.is_dry_run else ""
        lines = tuple(f"{would}{describe_action(action)}: {action.reason}" for action in plan.actions)
        if lines != self._shown:
            _log_capped(logging.INFO, lines)
        foreign = tuple(
            f"a label of node {each.action.node} is left alone: {each.why}" for each in plan.withheld if each.foreign
        )
        if foreign != self._foreign:
            _log_capped(logging.WARNING, foreign)
        self._shown, self._foreign = lines, foreign


def _log_capped(level: int, lines: Sequence[str]) -> None:
    for line in lines[:MAX_LOGGED_ACTIONS]:
        _log.log(level, "%s", line)
    if len(lines) > MAX_LOGGED_ACTIONS:
        _log.log(level, "%d more actions are not logged; see /plan", len(lines) - MAX_LOGGED_ACTIONS)


def describe_action(action: LabelAction) -> str:
    """Describes an action for the log and people."""
    if action.value is None:
        return f"remove label {action.label} from node {action.node}"
    return f"set label {action.label}={action.value} on node {action.node}"


def event_reason(actions: Sequence[LabelAction]) -> str:
    """Returns the Event reason of a patch, by the gravest of its changes."""
    marks = [action for action in actions if not action.label.startswith(LABEL_PREFIX)]
    if any(action.value is not None for action in marks):
        return "NodeMarked"
    return "NodeUnmarked" if marks else "NodeLabelled"


def event_note(actions: Sequence[LabelAction]) -> str:
    """Returns the Event note of a patch: each change with its policy and reason."""
    said = ((" removed" if each.value is None else f"={each.value}", each) for each in actions)
    return "; ".join(f"{each.label}{change} (policy {each.policy}: {each.reason})" for change, each in said)
