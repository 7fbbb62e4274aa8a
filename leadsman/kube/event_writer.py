"""Writes Events, for `kubectl describe`. Writing them never delays what they are about."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from leadsman.kube import events
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotLeader
from leadsman.kube.names import REPORTING_CONTROLLER
from leadsman.kube.objects import ObjectReference
from leadsman.kube.resources import EVENTS_V1
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

MAX_PENDING = 5000
"""Events that wait to be written; when there are more, the oldest are dropped and counted."""


class EventWriter:
    """Queues Events and writes them. `run` it as one task.

    rate: of writes.
    identity: of this process, as the Events' reporting instance. controller: as their reporting controller.
    written: Events that the API server took.
    dropped: Events that found the queue full or that the API server refused.
    """

    def __init__(
        self,
        client: ApiClient,
        rate: TokenBucket,
        identity: str,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        controller: str = REPORTING_CONTROLLER,
    ):
        self.written, self.dropped = 0, 0
        self._client, self._rate, self._identity, self._wall_clock = client, rate, identity, wall_clock
        self._controller = controller
        self._pending: deque[dict[str, Any]] = deque()
        self._not_empty = asyncio.Event()
        self._problem = ProblemLog(
            _log,
            f"API server refuses Events of {controller}; they are dropped",
            f"API server takes Events of {controller} again",
        )

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
            controller=self._controller,
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
