"""Publishes verdicts: the condition LeadsmanUnreachable on nodes, and an Event for each change of it.

The condition is what was published, so another leader goes on where this one stopped. A node that was never suspected
has none.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from controller.event_recorder import EventRecorder
from leadsman.kube import listing
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, NotFound, NotLeader
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import UNREACHABLE_CONDITION
from leadsman.kube.objects import Condition, Node, ObjectReference
from leadsman.kube.resources import NODES
from leadsman.planning.failover.model import NodeHealth, NodeVerdict, VerdictReason
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_PATCHES_AT_ONCE = 16

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


class Published(Struct, frozen=True):
    """What a node's condition says."""

    status: str
    reason: str


class NodeConditions:
    """Writes the condition where it differs from the verdict. Call `publish` in turn.

    client: one that writes only while this replica leads.
    uid: of a node by its name; "" when it is gone.
    rate: of patches.
    results: done, gone or failed → patches.
    """

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        rate: TokenBucket,
        uid: Callable[[str], str],
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.results: Counter[str] = Counter()
        self._client, self._recorder, self._rate = client, recorder, rate
        self._uid, self._wall_clock = uid, wall_clock
        self._published: dict[str, Published] | None = None
        self._problem = ProblemLog(
            _log,
            f"controller cannot read or write the condition {UNREACHABLE_CONDITION} of nodes; it tries again (is the "
            "component node-health installed?)",
            f"controller writes the condition {UNREACHABLE_CONDITION} of nodes again",
        )

    def reset(self) -> None:
        """Forgets what is published, because another replica leads."""
        self._published = None

    async def publish(self, verdicts: Mapping[str, NodeVerdict]) -> None:
        """Writes what differs. What fails is written in a later turn."""
        try:
            if self._published is None:
                self._published = await self._read_published()
            due = [verdict for verdict in verdicts.values() if self._differs(verdict)][:MAX_PATCHES_AT_ONCE]
            await asyncio.gather(*(self._write(verdict) for verdict in due if self._rate.try_take()))
        except ApiError as error:
            self._problem.report(error)
        else:
            self._problem.clear()

    async def _read_published(self) -> dict[str, Published]:
        nodes = await listing.list_objects(self._client, ListOptions(NODES), Node)
        conditions = ((node.metadata.name, _condition(node)) for node in nodes.items)
        return {name: Published(each.status, each.reason) for name, each in conditions if each is not None}

    def _differs(self, verdict: NodeVerdict) -> bool:
        """Where nothing is known of a node, its condition stays as it is."""
        assert self._published is not None
        if verdict.reason is VerdictReason.NO_EVIDENCE:
            return False
        status = STATUS_OF[verdict.state]
        if verdict.state is NodeHealth.HEALTHY:
            return self._published.get(verdict.node, Published(status, "")).status != status
        return self._published.get(verdict.node) != Published(status, verdict.reason)

    async def _write(self, verdict: NodeVerdict) -> None:
        assert self._published is not None
        status = STATUS_OF[verdict.state]
        old = self._published.get(verdict.node)
        body = {"status": {"conditions": [self._body(verdict, status, is_new=old is None or old.status != status)]}}
        path = NODES.path("", verdict.node, "status")
        try:
            await self._client.patch(path, body, PatchType.STRATEGIC)
        except NotLeader:
            return
        except NotFound:
            self.results["gone"] += 1
            return
        except ApiError:
            self.results["failed"] += 1
            raise
        self.results["done"] += 1
        self._published[verdict.node] = Published(status, verdict.reason)
        about = ObjectReference("Node", "", verdict.node, self._uid(verdict.node))
        is_warning = verdict.state is not NodeHealth.HEALTHY
        self._recorder.record(
            about, EVENT_OF[verdict.state], f"{verdict.reason}: {verdict.message}", "Observe", warning=is_warning
        )

    def _body(self, verdict: NodeVerdict, status: str, is_new: bool) -> dict[str, Any]:
        now = f"{self._wall_clock():%Y-%m-%dT%H:%M:%SZ}"
        changed = {"lastTransitionTime": now} if is_new else {}
        return {
            "type": UNREACHABLE_CONDITION,
            "status": status,
            "reason": verdict.reason.value,
            "message": verdict.message[:_LONGEST_MESSAGE_CHARACTERS],
            "lastHeartbeatTime": now,
            **changed,
        }


def _condition(node: Node) -> Condition | None:
    found: Iterator[Condition] = (each for each in node.status.conditions if each.type == UNREACHABLE_CONDITION)
    return next(found, None)
