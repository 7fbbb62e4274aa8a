"""Keeps every bounded pod covered: plans backups, and has placeholders hold the room for them.

What was planned before a node fell silent stands while it is silent: its delays cannot be measured, and now its pods
need their backups.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from msgspec import structs
from prometheus_client.core import Metric

from controller.keeper import MAX_PODS_SHOWN, MOVE_HOLD_PREFIX, Actions, HealedCluster, Keeper, Memory, Tools
from controller.settings import PlaceholderSettings
from leadsman.cluster.constraints import Toleration
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.decision.view import Views
from leadsman.kube.client import PatchType
from leadsman.kube.errors import ApiError, NotFound, NotLeader, Unavailable
from leadsman.kube.names import PLACEHOLDER_LABEL, PLACEHOLDER_NAMESPACE, PLACEHOLDER_PRIORITY_CLASS
from leadsman.kube.objects import ObjectReference
from leadsman.kube.resources import PODS, Resource
from leadsman.planning.backups.backup_plan import BackupPlan, remember
from leadsman.planning.backups.placeholders import (
    Coverage,
    CoverageState,
    CreatePlaceholder,
    DeletePlaceholder,
    PlaceholderAction,
    ResizePlaceholder,
    coverage_of,
    held_by,
    node_label,
    not_held,
    placeholders_by_node,
    plan_placeholders,
    plan_release,
)
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.backups.reserve import two_failures
from leadsman.planning.moves.mover import HoldRoom
from leadsman.planning.situation import Situation
from leadsman.published.documents import BadDocument
from leadsman.published.self_healing import BACKUPS, BackupMemory, Hold, PodBackup
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

WRITE_INTERVAL_SECONDS = 10.0
"""A state that the next leader must know is written once in this time."""


# Placeholders are pods that do nothing but request room on one node. Pod Security: restricted.

WRITES_PER_SECOND, WRITES_BURST = 20.0, 50
MAX_WRITES_A_TURN = 1000
"""So many take 50 s, and a turn of 120 s counts as stalled."""
REFUSED_PAUSE_SECONDS = 30.0
"""What a quota refuses it would refuse again at the next plan, two seconds later."""

CONTAINER = "hold"
GRACE_SECONDS = 1

_LABELS = {"app": "leadsman-placeholder", "app.kubernetes.io/part-of": "leadsman"}
"""One type of pod has them all, by `app`: else each would have a record of failures of its own."""

NEEDS_LIMITS = ("hugepages-",)


class PlaceholderWriter:
    """Creates, resizes and deletes placeholders, one after the other.

    deleted: UIDs of the placeholders that this process deleted: they are not lost.
    """

    def __init__(self, tools: Tools, settings: PlaceholderSettings) -> None:
        self.deleted: set[str] = set()
        self._client, self._settings, self._clock = tools.client, settings, tools.clock
        self._refused: dict[str, tuple[float, str]] = {}
        self._rate = TokenBucket(WRITES_PER_SECOND, WRITES_BURST)
        self._actions = Actions(
            _log,
            "controller cannot write placeholders; the next plan tries again",
            "controller writes placeholders again",
        )

    @property
    def problems(self) -> Mapping[str, str]:
        """Maps each node to why its placeholders could not be created or resized when that was last tried."""
        return {node: why for node, (_, why) in self._refused.items()}

    async def apply(self, actions: Sequence[PlaceholderAction], node_of: Mapping[str, str]) -> None:
        """Executes the actions. What is refused stands in `problems`, and is tried again after a while.

        node_of: UID of a placeholder → its node.
        """
        now = self._clock()
        self._refused = {
            node: refusal for node, refusal in self._refused.items() if now - refusal[0] < REFUSED_PAUSE_SECONDS
        }
        is_due = [not (isinstance(each, CreatePlaceholder) and each.node in self._refused) for each in actions]

        async def act(action: PlaceholderAction) -> str:
            await self._rate.wait()
            try:
                await self._execute(action)
            except (NotFound, NotLeader, Unavailable):
                raise
            except ApiError as error:
                node = action.node if isinstance(action, CreatePlaceholder) else node_of.get(action.uid, "")
                self._refused[node] = now, f"the API server refuses its placeholder: {error}"
                raise
            _log.info("%sd placeholder %s: %s", _VERBS[type(action).__name__], _described(action), action.reason)
            return "done"

        due = list(compress(actions, is_due))[:MAX_WRITES_A_TURN]
        await self._actions.carry_out(due, act, failed=bool(self._refused))

    async def _execute(self, action: PlaceholderAction) -> None:
        match action:
            case CreatePlaceholder():
                await self._client.create(PODS.path(PLACEHOLDER_NAMESPACE), placeholder_body(action, self._settings))
            case ResizePlaceholder():
                path, requests = PODS.path(action.namespace, action.name, "resize"), action.requests
                amounts = {"cpu": f"{requests.cpu_millis}m", "memory": str(requests.memory_bytes)}
                body = {"spec": {"containers": [{"name": CONTAINER, "resources": {"requests": amounts}}]}}
                await self._client.patch(path, body, PatchType.STRATEGIC)
            case DeletePlaceholder():
                self.deleted.add(action.uid)
                await self._client.delete(PODS.path(action.namespace, action.name), action.uid)


_VERBS = {"CreatePlaceholder": "create", "ResizePlaceholder": "resize", "DeletePlaceholder": "delete"}


def _described(action: PlaceholderAction) -> str:
    if isinstance(action, DeletePlaceholder):
        return action.name
    size = f"{action.requests.cpu_millis}m CPU, {action.requests.memory_bytes / 2**20:.0f} MiB"
    return f"on node {action.node} ({size})" if isinstance(action, CreatePlaceholder) else f"{action.name} ({size})"


def placeholder_body(action: CreatePlaceholder, settings: PlaceholderSettings) -> dict[str, Any]:
    """Makes the placeholder to create."""
    return room_body({"generateName": "placeholder-"}, {PLACEHOLDER_LABEL: node_label(action.node)}, action, settings)


def room_body(
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    room: CreatePlaceholder | HoldRoom,
    settings: PlaceholderSettings,
) -> dict[str, Any]:
    """Makes a pod that holds room. kube-scheduler places it, which is how it sees that there is room."""
    sizes = {"cpu": f"{room.requests.cpu_millis}m", "memory": str(room.requests.memory_bytes)}
    requests = sizes | {name: str(amount) for name, amount in room.requests.extended.items()}
    limits = {name: amount for name, amount in requests.items() if "/" in name or name.startswith(NEEDS_LIMITS)}
    name_is_node = {"key": "metadata.name", "operator": "In", "values": [room.node]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "namespace": PLACEHOLDER_NAMESPACE, "labels": {**_LABELS, **labels}},
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [name_is_node]}]
                    }
                }
            },
            "tolerations": [_toleration(each) for each in room.tolerations],
            "priorityClassName": PLACEHOLDER_PRIORITY_CLASS,
            "schedulerName": settings.scheduler,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": CONTAINER,
                    "image": settings.image,
                    "resources": {"requests": requests, "limits": limits},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def _toleration(toleration: Toleration) -> dict[str, str]:
    fields = {
        "key": toleration.key,
        "operator": toleration.operator or "Equal",
        "value": toleration.value,
        "effect": toleration.effect,
    }
    return {name: value for name, value in fields.items() if value}


class BackupKeeper(Keeper):
    """Plans backups, and makes placeholders follow the plan.

    plan: the last one.
    coverage: UID → coverage, of all bounded pods that do not ask for none.
    memory: where backups are, and the delays to them.
    lost: placeholders that went away without this controller.
    """

    name = "keep backups"
    every_seconds = 2.0
    """A lost placeholder is planned for again well within 10 s."""
    pause_ratio = 5.0
    problem_texts = (
        "controller cannot keep its memory of backups; it tries again",
        "controller keeps its memory of backups",
    )

    def __init__(self, tools: Tools, healed: HealedCluster) -> None:
        super().__init__(tools)
        self.lost = 0
        self._healed, settings = healed, healed.settings
        self._writer = PlaceholderWriter(tools, settings.placeholders)
        self._document, self._next_write_at = Memory(tools, BACKUPS, BackupMemory()), 0.0
        self._views, self._resize = Views(), False
        self._notes: dict[str, str] = {}
        self.forget()

    def forget(self) -> None:
        self.plan, self.memory = BackupPlan(), BackupMemory()
        self.coverage: Mapping[str, Coverage] = {}
        self._bound_placeholders: dict[str, tuple[str, ClusterPod]] = {}
        self._document.forget()

    async def keep(self) -> None:
        cluster = self._healed.current
        if cluster is None:
            return
        if self._document.value is None:
            await self._remember()
        await self._count_lost(cluster)
        unhealthy = self._healed.unhealthy
        situation = await self.tools.situation(cluster, self._views)
        if not situation.inputs.snapshot.cluster_id:
            return  # Nothing was read from etcd yet, and what is unknown is no reason to give up room.
        plan, memory = await self.make_plan(lambda: self._plan(situation, unhealthy))
        if not self.tools.is_dry_run:
            node_of = {pod.uid: node for node, pods in placeholders_by_node(cluster).items() for pod in pods}
            await self._writer.apply(plan_placeholders(cluster, plan, resize=self._resize), node_of)
        coverage = dict(coverage_of(cluster, plan, self._writer.problems))
        coverage |= {uid: each for uid, each in self._still_covered(cluster, unhealthy) if uid in coverage}
        uncovered = {uid: each.reason for uid, each in coverage.items() if each.state is not CoverageState.COVERED}
        self.plan, self.coverage = plan, coverage
        self.memory = structs.replace(memory, uncovered=uncovered)
        self._tell(cluster)
        await self._save()

    async def release(self, node: str, requests: Resources) -> None:
        """Makes the node's placeholders smaller by this much, or deletes as many as that takes; a new plan, which holds
        the rest again, is made at once."""
        cluster = self._healed.current
        if cluster is None:
            return
        there = placeholders_by_node(cluster).get(node, ())
        there = [pod for pod in there if pod.uid not in self._writer.deleted]
        actions = plan_release(there, requests, resize=self._resize)
        await self._writer.apply(actions, {pod.uid: node for pod in there})
        self.hurry()

    def page(self) -> Mapping[str, Any]:
        """Shows how many pods are covered, and the first ones, beginning with those that are not."""
        cluster = self._healed.current
        pods = cluster.pods if cluster else {}
        named = ((pods[uid], each) for uid, each in self.coverage.items() if uid in pods)
        troubled_first = sorted(named, key=lambda each: (each[1].state is CoverageState.COVERED, each[0].name))
        return {
            "coverage": self._coverage_counts(),
            "two_failures": self._two_failures(),
            "pods": {
                f"{pod.namespace}/{pod.name}": {
                    "node": pod.node,
                    "coverage": each.state.value,
                    "backup": each.node or None,
                    "reason": each.reason or None,
                }
                for pod, each in troubled_first[:MAX_PODS_SHOWN]
            },
        }

    def families(self) -> Iterator[Metric]:
        yield gauge(
            "leadsman_bounded_pods",
            "Pods with a delay bound that are to have a backup.",
            self._coverage_counts(),
            "coverage",
        )
        yield counter(
            "leadsman_placeholders_lost", "Placeholders that were evicted, preempted or deleted by others.", self.lost
        )
        cluster = self._healed.current
        if cluster is None:
            return
        placeholders = [pod for pods in placeholders_by_node(cluster).values() for pod in pods]
        bound = sum(bool(pod.node) for pod in placeholders)
        yield gauge(
            "leadsman_placeholders",
            "Placeholders, by whether they hold room.",
            {"bound": bound, "waiting": len(placeholders) - bound},
            "state",
        )

    def _still_covered(self, cluster: Cluster, unhealthy: frozenset[str]) -> Iterator[tuple[str, Coverage]]:
        """Yields the pods of unhealthy nodes whose room was held when their node fell silent, and is still held by
        placeholders or released for them."""
        released = {(hold.pod_uid, hold.node) for hold in self._healed.holds}
        held = {node: held_by(pods) for node, pods in placeholders_by_node(cluster).items()}
        for uid, before in self.coverage.items():
            pod, node, has_room = cluster.pods.get(uid), before.node, (uid, before.node) in released
            was_covered = before.state is CoverageState.COVERED and node in cluster.nodes.keys() - unhealthy
            if pod is None or pod.node not in unhealthy or not was_covered:
                continue
            if not has_room and (has_room := pod.requests.fits(held.get(node, ZERO))):
                held[node] -= pod.requests
            if has_room:
                yield uid, before

    def _two_failures(self) -> str | None:
        """Says what two nodes that fail at once would cost; None: the cluster changed since the last plan."""
        cluster, plan = self._healed.current, self.plan
        if cluster is None or not plan.backups.keys() <= cluster.pods.keys():
            return None
        return two_failures(cluster, plan.backups, plan.reserves).text

    def _coverage_counts(self) -> dict[str, int]:
        counts = Counter(each.state for each in self.coverage.values())
        return {state.value: counts[state] for state in CoverageState}

    def _plan(self, situation: Situation, unhealthy: frozenset[str]) -> tuple[BackupPlan, BackupMemory]:
        held = _with_holds(situation, self._healed.holds)
        previous = {uid: backup.node for uid, backup in self.memory.pods.items()}
        plan = plan_backups(held, self._healed.settings.backups, previous, unhealthy)
        return plan, remember(plan, situation, self.memory, unhealthy, self.tools.wall_clock())

    async def _remember(self) -> None:
        """Reads what the last leader wrote. Without it the plan would move every backup."""
        self._resize = await self._offers_resize()
        try:
            memory = await self._document.read()
        except BadDocument as error:
            _log.warning(
                "cannot read what the last leader remembered of backups; they are planned from scratch: %s", error
            )
            memory = self._document.value = BackupMemory()
        self.plan, self.coverage, self.memory = BackupPlan(), {}, memory
        self._notes = {uid: _note(each.node, each.reason) for uid, each in _told(memory).items() if each}

    async def _save(self) -> None:
        memory, written = self.memory, self._document.value
        if written is None or _told(memory) == _told(written) or self.tools.clock() < self._next_write_at:
            return
        await self._document.write(memory)
        self._next_write_at = self.tools.clock() + WRITE_INTERVAL_SECONDS

    async def _offers_resize(self) -> bool:
        """Tells whether pods can be resized in place: Kubernetes 1.33 and newer (KEP-1287). Else they are replaced."""
        try:
            return await self.tools.client.serves(Resource("v1", "pods/resize"))
        except ApiError as error:
            _log.warning("cannot ask whether pods can be resized; placeholders are replaced instead: %s", error)
            return False

    def _tell(self, cluster: Cluster) -> None:
        """Writes an Event on each pod whose backup is another one, or that has none for another reason."""
        before, self._notes = self._notes, {}
        for uid, each in self.coverage.items():
            if each.state is CoverageState.WAITING:
                self._notes[uid] = before.get(uid, "")  # what it becomes is told
                continue
            note = self._notes[uid] = _note(each.node, each.reason)
            if before.get(uid) != note:
                pod, covered = cluster.pods[uid], each.state is CoverageState.COVERED
                about = ObjectReference("Pod", pod.namespace, pod.name, uid)
                self.tools.tell(about, "Covered" if covered else "NoBackup", note, "Plan", warning=not covered)

    async def _count_lost(self, cluster: Cluster) -> None:
        """Counts placeholders that were bound and are gone, and not by our hand: evicted, preempted or deleted.

        One that kubelet evicted stays as a failed pod, which nobody else would delete.
        """
        bound = {
            pod.uid: (node, pod) for node, pods in placeholders_by_node(cluster).items() for pod in pods if pod.node
        }
        deleted = self._writer.deleted
        gone = self._bound_placeholders.keys() - bound.keys() - deleted
        for uid in gone:
            node, pod = self._bound_placeholders[uid]
            what = f"placeholder {pod.name} is gone, and not by this controller; its room is planned again"
            _log.warning("node %s: %s", node, what)
            known = cluster.nodes.get(node)
            about = ObjectReference("Node", "", node, known.uid if known else "")
            self.tools.tell(about, "PlaceholderLost", what, "Plan", warning=True)
        self.lost += len(gone)
        deleted.intersection_update(cluster.pods)
        if gone and not self.tools.is_dry_run:
            lost = [self._bound_placeholders[uid] for uid in sorted(gone)]
            await self._writer.apply(
                [DeletePlaceholder(pod.uid, pod.namespace, pod.name, "others ended it") for _, pod in lost],
                {pod.uid: node for node, pod in lost},
            )
        self._bound_placeholders = bound


def _note(node: str, reason: str) -> str:
    """Returns the note of an Event. reason: why the pod is not covered; "" when it is."""
    return f"it has no backup: {reason}" if reason else f"its backup is node {node}"


def _told(memory: BackupMemory) -> Mapping[str, PodBackup | None]:
    """Returns what makes a memory worth writing: not that delays are newer."""
    return {uid: memory.of_pod(uid) for uid in memory.pods.keys() | memory.uncovered.keys()}


def _with_holds(situation: Situation, holds: tuple[Hold, ...]) -> Situation:
    """Returns the same with a pod for what is held and stands free, so that no backup counts on the same room. Pods
    that hold the room have it already, and so has the one that leaves it to a pending pod."""
    pods: dict[str, ClusterPod | None] = {}
    for hold in holds:
        uid, own = f"hold of {hold.pod_uid} on {hold.node}", {hold.pod_uid.removeprefix(MOVE_HOLD_PREFIX), hold.for_uid}
        if hold.node not in situation.cluster.nodes:
            continue
        holding = (pod for pod in situation.cluster.pods_on(hold.node) if own & {pod.uid, pod.held_for})
        if free := not_held(hold.requests, holding):
            pods[uid] = ClusterPod(uid, "", "", hold.node, requests=free)
    return situation.changed(pods)
