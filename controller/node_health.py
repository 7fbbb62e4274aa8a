"""Judges once a second which nodes are dead and which only suspect, on every replica; the leader publishes it.

A replica that does not lead judges too: it must know how long a node has been silent when it takes over. What is
published is the condition LeadsmanUnreachable on nodes, and an Event for each change of it; so another leader goes on
where this one stopped. A node that was never suspected has no condition.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs
from prometheus_client.core import Metric, SummaryMetricFamily

from controller.keeper import Keeper, NodeCache, Tools
from leadsman.cluster.model import labelled_location
from leadsman.kube import listing
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, NotFound, NotLeader
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNREACHABLE_CONDITION
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node, NodeLease, ObjectReference
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import LEASES, NODES
from leadsman.planning.failover.node_verdict import DetectionRules, LeaseView, NodeHealth, NodeVerdict, VerdictReason
from leadsman.planning.failover.verdicts import NO_MEMORY, HealthMemory, plan_node_health
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.scrape import counter, gauge
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

LEASES_NAMESPACE = "kube-node-lease"

MAX_NODES_SHOWN = 100
MAX_CALLS_AT_ONCE = 16
_SILENCE_SECONDS = 30.0
"""Kubelets renew every 10 s, so a watch without a byte for so long is dead."""
_LONGEST_PAUSE_SECONDS = 2.0
_LONGEST_MESSAGE_CHARACTERS = 1_024

STATUS_OF = {
    NodeHealth.HEALTHY: "False",
    NodeHealth.SUSPECT: "Unknown",
    NodeHealth.PARTITION: "Unknown",
    NodeHealth.DEAD: "True",
}
EVENT_OF = {
    NodeHealth.HEALTHY: "NodeReachable",
    NodeHealth.SUSPECT: "NodeSuspect",
    NodeHealth.PARTITION: "NodeCutOff",
    NodeHealth.DEAD: "NodeDead",
}


class NodeLeases:
    """Follows the Leases that kubelets renew, and reads single ones directly to confirm the watch.

    Each change is stamped by this process's own monotonic clock: what a kubelet writes as renewTime is its own clock's,
    and is only compared with itself.

    rate: of direct reads.
    """

    def __init__(self, client: ApiClient, rate: TokenBucket, clock: Callable[[], float]) -> None:
        self._client, self._rate, self._clock = client, rate, clock
        self._views: dict[str, LeaseView] = {}
        self.reflector = Reflector(
            client,
            ListOptions(LEASES, namespace=LEASES_NAMESPACE),
            NodeLease,
            on_changes=self._take,
            silence_seconds=_SILENCE_SECONDS,
            longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
            clock=clock,
        )
        self._problem = ProblemLog(
            _log,
            "controller cannot read Leases of silent nodes; none of them counts as dead (may it get leases in "
            f"{LEASES_NAMESPACE}?)",
            "controller reads Leases of silent nodes again",
        )

    @property
    def current(self) -> Mapping[str, LeaseView]:
        """Maps each node to its Lease, in a copy."""
        return self._views.copy()

    async def confirm(self, nodes: Iterable[str]) -> None:
        """Reads these nodes' Leases from the API server's storage, as many as the rate allows."""
        due = [node for node in nodes if node in self._views][:MAX_CALLS_AT_ONCE]
        await asyncio.gather(*(self._confirm(node) for node in due if self._rate.try_take()))

    async def _confirm(self, node: str) -> None:
        began = self._clock()
        try:
            lease = await self._client.get(LEASES.path(LEASES_NAMESPACE, node), NodeLease)
        except NotFound:
            return
        except ApiError as error:
            self._problem.report(error)
            return
        self._problem.clear()
        view, known = self._views.get(node), self.reflector.get((LEASES_NAMESPACE, node))
        # Where it was renewed, the watch is late: it brings the change, and stamps it.
        if view and known and lease.spec.renew_time == known.spec.renew_time:
            self._views[node] = structs.replace(view, confirmed_at=began)

    def _take(self, changes: Sequence[ObjectChange[NodeLease]]) -> None:
        now = self._clock()
        for change in changes:
            node, spec = change.object.metadata.name, change.object.spec
            if change.kind is ChangeType.DELETED:
                self._views.pop(node, None)
            elif change.old is None or change.old.spec.renew_time != spec.renew_time:
                self._views[node] = LeaseView(spec.lease_duration_seconds, now, is_new=change.old is None)


class NodeHealthReporter(Keeper):
    """Judges whether each node is healthy, suspect or dead.

    verdicts: the last ones, by node; empty before the first.
    """

    name = "judge nodes"
    on_all_replicas = True

    def __init__(
        self, tools: Tools, nodes: NodeCache, leases: NodeLeases, rules: DetectionRules, rack_label: str
    ) -> None:
        super().__init__(tools, [nodes.watched])
        self.verdicts: Mapping[str, NodeVerdict] = {}
        self._nodes, self._leases, self._rules, self._rack_label = nodes, leases, rules, rack_label
        self._memory: HealthMemory = NO_MEMORY
        self._reached: Counter[NodeHealth] = Counter()
        self._detected, self._detection_seconds = 0, 0.0

    async def keep(self) -> None:
        """Makes the verdicts, and reads the Leases that may change one."""
        before, now, snapshot = self.verdicts, self.tools.clock(), self.tools.inputs().snapshot
        nodes = self._nodes.current.items()
        locations = {name: labelled_location(node.metadata.labels, self._rack_label) for name, node in nodes}
        leases, memory = self._leases.current, self._memory
        plan = await self.make_plan(lambda: plan_node_health(snapshot, locations, leases, self._rules, memory, now))
        self.verdicts, self._memory = plan.verdicts, plan.memory
        self._count(before)
        await self._leases.confirm(plan.unconfirmed_leases)

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        return {"watch node Leases": self._leases.reflector.run()}

    def page(self) -> Mapping[str, Any]:
        """Shows the verdicts: how many of each and why, and those on nodes that are not healthy."""
        now = self.tools.clock()
        troubled = [verdict for verdict in self.verdicts.values() if verdict.state is not NodeHealth.HEALTHY]
        return {
            "verdicts": self._by_state(),
            "reasons": dict(Counter(verdict.reason.value for verdict in self.verdicts.values())),
            "nodes": {verdict.node: _shown(verdict, now) for verdict in troubled[:MAX_NODES_SHOWN]},
        }

    def families(self) -> Iterator[Metric]:
        yield gauge("leadsman_node_verdicts", "Nodes by the verdict on them.", self._by_state(), "verdict")
        yield gauge(
            "leadsman_node_suspect",
            "1 for each node that is suspect, cut off or dead, with the reason.",
            {
                (each.node, each.state.value, each.reason.value): 1.0
                for each in self.verdicts.values()
                if each.state is not NodeHealth.HEALTHY
            },
            "node",
            "verdict",
            "reason",
        )
        yield counter(
            "leadsman_node_verdict_changes",
            "Verdicts on nodes that differ from the one before.",
            {state.value: self._reached[state] for state in NodeHealth},
            "verdict",
        )
        yield SummaryMetricFamily(
            "leadsman_node_death_detection_seconds",
            "Seconds from the first lost probe to the verdict that a node is dead.",
            self._detected,
            self._detection_seconds,
        )

    def _by_state(self) -> dict[str, int]:
        counts = Counter(verdict.state for verdict in self.verdicts.values())
        return {state.value: counts[state] for state in NodeHealth}

    def _count(self, before: Mapping[str, NodeVerdict]) -> None:
        for node, verdict in self.verdicts.items():
            old = before[node].state if node in before else NodeHealth.HEALTHY
            if verdict.state is old:
                continue
            self._reached[verdict.state] += 1
            timeline = verdict.timeline
            if verdict.state is NodeHealth.DEAD and timeline.first_lost_at is not None:
                self._detected += 1
                self._detection_seconds += verdict.since - timeline.first_lost_at


def _shown(verdict: NodeVerdict, now: float) -> dict[str, Any]:
    timeline: dict[str, float | None] = msgspec.to_builtins(verdict.timeline)
    ages = {name.removesuffix("_at"): None if at is None else round(now - at, 1) for name, at in timeline.items()}
    return {
        "verdict": verdict.state.value,
        "reason": verdict.reason.value,
        "message": verdict.message,
        "since_seconds_ago": round(now - verdict.since, 1),
        "timeline_seconds_ago": ages,
        "signals": msgspec.to_builtins(verdict.signals),
    }


class NodeConditions(Keeper):
    """Writes the condition of each node where it differs from the verdict.

    uid: of a node by its name; "" when it is gone.
    rate: of patches.
    """

    name = "publish node health"
    problem_texts = (
        f"controller cannot read or write the condition {UNREACHABLE_CONDITION} of nodes; it tries again (is the "
        "component self-healing installed?)",
        f"controller writes the condition {UNREACHABLE_CONDITION} of nodes again",
    )

    def __init__(
        self,
        tools: Tools,
        verdicts: Callable[[], Mapping[str, NodeVerdict]],
        uid: Callable[[str], str],
        rate: TokenBucket,
    ) -> None:
        super().__init__(tools)
        self._verdicts, self._uid, self._rate = verdicts, uid, rate
        self._published: dict[str, tuple[str, str]] | None = None  # status and reason of each node's condition

    def forget(self) -> None:
        self._published = None

    async def keep(self) -> None:
        """Writes what differs. What fails is written in a later turn."""
        if self.tools.is_dry_run:
            return
        if self._published is None:
            nodes = await listing.list_objects(self.tools.client, ListOptions(NODES), Node)
            conditions = ((node.metadata.name, each) for node in nodes.items for each in node.status.conditions)
            ours = ((name, each) for name, each in conditions if each.type == UNREACHABLE_CONDITION)
            self._published = {name: (each.status, each.reason) for name, each in ours}
        due = [verdict for verdict in self._verdicts().values() if self._differs(verdict)][:MAX_CALLS_AT_ONCE]
        await asyncio.gather(*(self._write(verdict) for verdict in due if self._rate.try_take()))

    def _differs(self, verdict: NodeVerdict) -> bool:
        """Tells whether the condition must change; where nothing is known of a node, it stays as it is."""
        assert self._published is not None
        if verdict.reason is VerdictReason.NO_EVIDENCE:
            return False
        status = STATUS_OF[verdict.state]
        if verdict.state is NodeHealth.HEALTHY:
            return self._published.get(verdict.node, (status, ""))[0] != status
        return self._published.get(verdict.node) != (status, verdict.reason)

    async def _write(self, verdict: NodeVerdict) -> None:
        assert self._published is not None
        status = STATUS_OF[verdict.state]
        old = self._published.get(verdict.node)
        body = {"status": {"conditions": [self._body(verdict, status, is_new=old is None or old[0] != status)]}}
        path = NODES.path("", verdict.node, "status")
        try:
            await self.tools.client.patch(path, body, PatchType.STRATEGIC)
        except (NotFound, NotLeader):
            return
        self._published[verdict.node] = (status, verdict.reason)
        about = ObjectReference("Node", "", verdict.node, self._uid(verdict.node))
        is_warning = verdict.state is not NodeHealth.HEALTHY
        self.tools.tell(
            about, EVENT_OF[verdict.state], f"{verdict.reason}: {verdict.message}", "Observe", warning=is_warning
        )

    def _body(self, verdict: NodeVerdict, status: str, is_new: bool) -> dict[str, Any]:
        now = f"{datetime.fromtimestamp(self.tools.wall_clock(), UTC):%Y-%m-%dT%H:%M:%SZ}"
        changed = {"lastTransitionTime": now} if is_new else {}
        return {
            "type": UNREACHABLE_CONDITION,
            "status": status,
            "reason": verdict.reason.value,
            "message": verdict.message[:_LONGEST_MESSAGE_CHARACTERS],
            "lastHeartbeatTime": now,
            **changed,
        }
