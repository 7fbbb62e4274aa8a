"""Records what the controller did as Events, for `kubectl describe`. Writing them never delays an action.

There is one Event for each patch of a node; its note lists every change.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from leadsman.decision.telemetry.taspolicy import LABEL_PREFIX
from leadsman.kube import events
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotLeader
from leadsman.kube.names import REPORTING_CONTROLLER
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.kube.resources import EVENTS_V1
from leadsman.planning.labels.model import LabelAction, NodePatch
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_PENDING = 5000
"""Events that wait to be written; when there are more, the oldest are dropped and counted."""


class EventRecorder:
    """Queues Events and writes them. `run` it as one task.

    rate: of writes.
    identity: of this controller, as the Events' reporting instance.
    written: Events that the API server took.
    dropped: Events that found the queue full or that the API server refused.
    """

    def __init__(
        self,
        client: ApiClient,
        rate: TokenBucket,
        identity: str,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.written, self.dropped = 0, 0
        self._client, self._rate, self._identity, self._wall_clock = client, rate, identity, wall_clock
        self._pending: deque[dict[str, Any]] = deque()
        self._not_empty = asyncio.Event()
        self._problem = ProblemLog(
            _log,
            "API server refuses Events of the controller; they are dropped",
            "API server takes Events of the controller again",
        )

    def record_patch(self, patch: NodePatch, node: PartialObjectMetadata | None) -> None:
        """Queues the Event of a patch; none for a patch that only corrected the ownership annotation."""
        if patch.actions:
            about = ObjectReference("Node", "", patch.node, node.metadata.uid if node else "")
            self.record(about, event_reason(patch.actions), event_note(patch.actions), "Label")

    def record(
        self,
        about: ObjectReference,
        reason: str,
        note: str,
        action: str,
        warning: bool = False,
        api_version: str = "v1",
        name: str = "",
    ) -> None:
        """Queues an Event about an object.

        name: the Event's, for one that is written once, no matter which replica leads; "": a name of its own.
        """
        if len(self._pending) >= MAX_PENDING:
            self._pending.popleft()
            self.dropped += 1
        at = self._wall_clock()
        event = events.event_body(
            about,
            reason,
            note,
            at=at,
            controller=REPORTING_CONTROLLER,
            instance=self._identity,
            action=action,
            warning=warning,
            api_version=api_version,
            name=name,
        )
        self._pending.append(event)
        self._not_empty.set()

    async def run(self) -> None:
        """Writes until cancelled. An Event that the API server refuses is dropped: what it reports is done anyhow."""
        while True:
            await self._not_empty.wait()
            while self._pending:
                await self._rate.wait()
                await self._write(self._pending.popleft())
            self._not_empty.clear()

    async def _write(self, event: dict[str, Any]) -> None:
        try:
            await self._client.create(EVENTS_V1.path(event["metadata"]["namespace"]), event)
            self.written += 1
            self._problem.clear()
        except Conflict:
            return  # An Event of this name exists.
        except NotLeader:
            self.dropped += 1
        except ApiError as error:
            self._problem.report(error)
            self.dropped += 1


def event_reason(actions: Sequence[LabelAction]) -> str:
    """The Event reason of a patch: of its changes, the gravest."""
    marks = [action for action in actions if not action.label.startswith(LABEL_PREFIX)]
    if any(action.value is not None for action in marks):
        return "NodeMarked"
    return "NodeUnmarked" if marks else "NodeLabelled"


def event_note(actions: Sequence[LabelAction]) -> str:
    """The Event note of a patch: each change with its policy and reason."""
    return "; ".join(f"{_describe_change(action)} (policy {action.policy}: {action.reason})" for action in actions)


def _describe_change(action: LabelAction) -> str:
    if action.value is None:
        return f"{action.label} removed"
    return f"{action.label}={action.value}"
