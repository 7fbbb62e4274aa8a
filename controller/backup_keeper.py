"""Keeps every bounded pod covered: plans backups, and has placeholders hold the room.

Plans are made on a thread, because a large cluster's takes seconds. What was planned before a node fell silent stands
while it is silent: its delays cannot be measured, and now its pods need their backups.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Set

from msgspec import Struct, structs

from controller.config_maps import DocumentObject
from controller.event_recorder import EventRecorder
from controller.image_keepers import ImageKeepers
from controller.placeholder_writer import PlaceholderWriter
from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.decision.cache import DecisionCache
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.objects import ObjectReference
from leadsman.planning.backups.coverage import Coverage, CoverageState, coverage_of
from leadsman.planning.backups.model import BackupPlan, BackupSettings
from leadsman.planning.backups.placeholders import (
    DeletePlaceholder,
    placeholders_by_node,
    plan_placeholders,
    plan_release,
)
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.backups.remember import remember
from leadsman.planning.recovery.model import ReleaseRoom
from leadsman.published.backups import BackupMemory, PodBackup
from leadsman.published.documents import BadDocument, DocumentTooLarge
from leadsman.published.self_healing import Hold
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

PLAN_INTERVAL_SECONDS = 2.0
"""Between plans: a lost placeholder is planned for again well within 10 s."""

PLAN_SHARE = 0.2
"""Most of the time that planning may take: after a long plan the pause is longer."""

WRITE_INTERVAL_SECONDS = 10.0
"""Between writes of what the next leader must know."""


class _ApiResource(Struct):
    name: str


class _ApiResources(Struct):
    resources: tuple[_ApiResource, ...] = ()


class BackupsStatus(Struct, frozen=True):
    """What is true of backups now.

    coverage: UID → coverage, of all bounded pods that do not ask for none.
    memory: where backups are, and the delays to them.
    """

    plan: BackupPlan = BackupPlan()
    coverage: Mapping[str, Coverage] = {}
    memory: BackupMemory = BackupMemory()


class BackupKeeper:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    cluster: None while it is not known.
    writer, recorder: None: a dry run, which only plans.
    image_keepers: follow each plan; None: nothing keeps images.
    unhealthy: dead and suspect nodes.
    holds: room that was released and must stay free.
    status: of the last plan.
    lost: placeholders that went away without this controller.
    """

    def __init__(
        self,
        client: ApiClient,
        cluster: Callable[[], Cluster | None],
        inputs: Callable[[], DecisionInputs],
        memory: DocumentObject[BackupMemory],
        writer: PlaceholderWriter | None,
        recorder: EventRecorder | None,
        settings: BackupSettings,
        *,
        unhealthy: Callable[[], Set[str]],
        holds: Callable[[], tuple[Hold, ...]],
        image_keepers: ImageKeepers | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.status, self.lost, self.plan_seconds = BackupsStatus(), 0, 0.0
        self._client, self._recorder, self._resize = client, recorder, False
        self._cluster, self._inputs, self._memory, self._writer, self._settings = (
            cluster,
            inputs,
            memory,
            writer,
            settings,
        )
        self._image_keepers = image_keepers
        self._unhealthy, self._holds, self._clock, self._wall_clock = unhealthy, holds, clock, wall_clock
        self._cache = DecisionCache()
        self._loaded, self._next_plan_at, self._next_write_at = False, 0.0, 0.0
        self._written: Mapping[str, PodBackup | None] = {}
        self._notes: dict[str, str] = {}
        self._bound_placeholders: dict[str, tuple[str, ClusterPod]] = {}
        self._problem = ProblemLog(
            _log,
            "controller cannot keep its memory of backups; it tries again",
            "controller keeps its memory of backups",
        )

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self.status, self._loaded, self._bound_placeholders = BackupsStatus(), False, {}

    async def sync(self) -> None:
        """Plans, if it is time to, and has placeholders follow the plan."""
        cluster = self._cluster()
        if cluster is None or self._clock() < self._next_plan_at or not await self._load():
            return
        await self._count_lost(cluster)
        began = self._clock()
        unhealthy = frozenset(self._unhealthy())
        inputs = structs.replace(self._inputs(), cache=self._cache)
        plan, memory = await asyncio.to_thread(self._plan, cluster, inputs, unhealthy)
        self.plan_seconds = self._clock() - began
        self._next_plan_at = self._clock() + max(PLAN_INTERVAL_SECONDS, self.plan_seconds / PLAN_SHARE)
        problems: Mapping[str, str] = {}
        if self._writer:
            node_of = {pod.uid: node for node, pods in placeholders_by_node(cluster).items() for pod in pods}
            await self._writer.apply(plan_placeholders(cluster, plan, resize=self._resize), node_of)
            problems = self._writer.problems
        coverage = dict(coverage_of(cluster, plan, problems))
        for uid, before in self.status.coverage.items():
            was_covered = before.state is CoverageState.COVERED and before.node not in unhealthy
            if uid in coverage and cluster.pods[uid].node in unhealthy and was_covered:
                coverage[uid] = before  # its room was held when its node fell silent, and is released for it now
        uncovered = {uid: each.reason for uid, each in coverage.items() if each.state is not CoverageState.COVERED}
        self.status = BackupsStatus(plan, coverage, structs.replace(memory, uncovered=uncovered))
        self._tell(cluster)
        await self._save()
        if self._image_keepers:
            await self._image_keepers.sync(cluster, plan)

    def plan_now(self) -> None:
        """Lets the next `sync` plan at once."""
        self._next_plan_at = 0.0

    async def release(self, action: ReleaseRoom) -> None:
        """Frees room that placeholders hold on a node. The next plan comes at once, to hold the rest again."""
        cluster = self._cluster()
        if cluster is None or self._writer is None:
            return
        there = placeholders_by_node(cluster).get(action.node, ())
        there = [pod for pod in there if pod.uid not in self._writer.deleted]
        actions = plan_release(there, action.requests, resize=self._resize)
        await self._writer.apply(actions, {pod.uid: action.node for pod in there})
        self.plan_now()

    def _plan(
        self, cluster: Cluster, inputs: DecisionInputs, unhealthy: frozenset[str]
    ) -> tuple[BackupPlan, BackupMemory]:
        held = _with_holds(cluster, self._holds())
        previous = {uid: backup.node for uid, backup in self.status.memory.pods.items()}
        plan = plan_backups(held, inputs, self._settings, previous, unhealthy)
        return plan, remember(plan, cluster, inputs, self.status.memory, unhealthy, self._wall_clock())

    async def _load(self) -> bool:
        """Reads what the last leader wrote, once. Without it the plan would move every backup."""
        if self._loaded:
            return True
        try:
            memory = await self._memory.read() or BackupMemory()
            self._resize = await self._offers_resize()
        except ApiError as error:
            self._problem.report(error)
            return False
        except BadDocument as error:
            _log.warning(
                "what the last leader remembered of backups cannot be read; they are planned from nothing: %s", error
            )
            memory = BackupMemory()
        self.status, self._loaded = BackupsStatus(memory=memory), True
        self._written = _published(memory)
        self._notes = {uid: _note(each.node, each.reason) for uid, each in self._written.items() if each}
        return True

    async def _save(self) -> None:
        published = _published(self.status.memory)
        if self._writer is None or published == self._written or self._clock() < self._next_write_at:
            return
        self._next_write_at = self._clock() + WRITE_INTERVAL_SECONDS
        try:
            await self._memory.write(self.status.memory)
        except (ApiError, DocumentTooLarge) as error:
            self._problem.report(error)
            self._loaded = not isinstance(error, ApiError)
        else:
            self._written = published
            self._problem.clear()

    async def _offers_resize(self) -> bool:
        """Whether pods can be resized in place: Kubernetes 1.33 and newer (KEP-1287). Without it pods are replaced."""
        try:
            offered = await self._client.get("/api/v1", _ApiResources)
        except ApiError as error:
            _log.warning("cannot ask whether pods can be resized; placeholders are replaced instead: %s", error)
            return False
        return any(resource.name == "pods/resize" for resource in offered.resources)

    def _tell(self, cluster: Cluster) -> None:
        """An Event on each pod whose backup is another one, or that has none for another reason."""
        before, self._notes = self._notes, {}
        for uid, each in self.status.coverage.items():
            if each.state is CoverageState.WAITING:
                self._notes[uid] = before.get(uid, "")  # what it becomes is told
                continue
            note = self._notes[uid] = _note(each.node, each.reason)
            if self._recorder and before.get(uid) != note:
                pod, covered = cluster.pods[uid], each.state is CoverageState.COVERED
                about = ObjectReference("Pod", pod.namespace, pod.name, uid)
                self._recorder.record(about, "Covered" if covered else "NoBackup", note, "Plan", warning=not covered)

    async def _count_lost(self, cluster: Cluster) -> None:
        """Counts placeholders that were bound and are gone, and not by our hand: evicted, preempted or deleted.

        One that kubelet evicted stays as a failed pod, which nobody else would delete.
        """
        bound = {
            pod.uid: (node, pod) for node, pods in placeholders_by_node(cluster).items() for pod in pods if pod.node
        }
        deleted = self._writer.deleted if self._writer else set()
        gone = self._bound_placeholders.keys() - bound.keys() - deleted
        for uid in gone:
            node, pod = self._bound_placeholders[uid]
            what = f"placeholder {pod.name} is gone, and not by this controller; its room is planned again"
            _log.warning("node %s: %s", node, what)
            if self._recorder:
                known = cluster.nodes.get(node)
                about = ObjectReference("Node", "", node, known.uid if known else "")
                self._recorder.record(about, "PlaceholderLost", what, "Plan", warning=True)
        self.lost += len(gone)
        deleted.intersection_update(cluster.pods)
        if self._writer and gone:
            lost = [self._bound_placeholders[uid] for uid in sorted(gone)]
            await self._writer.apply(
                [DeletePlaceholder(pod.uid, pod.namespace, pod.name, "others ended it") for _, pod in lost],
                {pod.uid: node for node, pod in lost},
            )
        self._bound_placeholders = bound


def _note(node: str, reason: str) -> str:
    """For an Event. reason: why the pod is not covered; "" when it is."""
    return f"it has no backup: {reason}" if reason else f"its backup is node {node}"


def _published(memory: BackupMemory) -> Mapping[str, PodBackup | None]:
    """What makes a memory worth writing: not that delays are newer."""
    return {uid: memory.of_pod(uid) for uid in memory.pods.keys() | memory.uncovered.keys()}


def _with_holds(cluster: Cluster, holds: tuple[Hold, ...]) -> Cluster:
    """The cluster with a pod in place of each hold, so that no backup counts on the same room."""
    pods: dict[str, ClusterPod | None] = {
        f"hold of {hold.pod_uid}": ClusterPod(f"hold of {hold.pod_uid}", "", "", hold.node, requests=hold.requests)
        for hold in holds
        if hold.node in cluster.nodes
    }
    return cluster.changed(pods=pods)
