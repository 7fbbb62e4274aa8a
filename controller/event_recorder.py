"""Events of what was done, so that `kubectl describe node` tells it. They never hold up an action.

One Event a node and patch, with all that was changed in its note.
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
from leadsman.kube.errors import ApiError, Conflict
from leadsman.kube.names import REPORTING_CONTROLLER
from leadsman.kube.objects import ObjectReference, PartialObjectMetadata
from leadsman.kube.resources import EVENTS_V1
from leadsman.planning.labels.model import LabelAction, NodePatch
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_PENDING = 5000
"""Of Events that are not written yet; beyond, the oldest are dropped and counted."""


class EventRecorder:
    """`run` it as one task. identity: which controller. For metrics: written, dropped."""

    def __init__(
        self,
        client: ApiClient,
        rate: TokenBucket,
        identity: str,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.written, self.dropped = 0, 0
        self._client, self._rate, self._identity, self._wall_clock = client, rate, identity, wall_clock
        self._waiting: deque[dict[str, Any]] = deque()
        self._some = asyncio.Event()
        self._problem = ProblemLog(
            _log,
            "API server refuses Events of the controller; they are dropped",
            "API server takes Events of the controller again",
        )

    def record_patch(self, patch: NodePatch, node: PartialObjectMetadata | None) -> None:
        """What was done on a node. Nothing to tell of a patch that only mended the record of what is ours."""
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
        """name: of an Event that is written once, whoever leads; "": one of its own."""
        if len(self._waiting) >= MAX_PENDING:
            self._waiting.popleft()
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
        self._waiting.append(event)
        self._some.set()

    async def run(self) -> None:
        """For ever. An Event that the API server does not take is dropped: it only tells of what was done."""
        while True:
            await self._some.wait()
            while self._waiting:
                await self._rate.wait()
                await self._write(self._waiting.popleft())
            self._some.clear()

    async def _write(self, event: dict[str, Any]) -> None:
        try:
            await self._client.create(EVENTS_V1.path(event["metadata"]["namespace"]), event)
            self.written += 1
            self._problem.clear()
        except Conflict:
            return  # It stands there under this name.
        except ApiError as error:
            self._problem.report(error)
            self.dropped += 1


def event_reason(actions: Sequence[LabelAction]) -> str:
    """The first that applies, the gravest first."""
    marks = [action for action in actions if not action.label.startswith(LABEL_PREFIX)]
    if any(action.value is not None for action in marks):
        return "NodeMarked"
    return "NodeUnmarked" if marks else "NodeLabelled"


def event_note(actions: Sequence[LabelAction]) -> str:
    """Each action with its policy and reason."""
    return "; ".join(f"{_describe_change(action)} (policy {action.policy}: {action.reason})" for action in actions)


def _describe_change(action: LabelAction) -> str:
    if action.value is None:
        return f"{action.label} removed"
    return f"{action.label}={action.value}"
