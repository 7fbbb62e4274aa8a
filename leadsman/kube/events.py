"""Reads the Warning Events of a pod, and writes Events, for `kubectl describe`.

We write events.k8s.io/v1, which needs fewer rights than the core kind; kubectl shows both alike. The API server keeps
every Event for an hour, so the caller must not write the same one again and again. Writing them never delays what they
are about.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, NotLeader
from leadsman.kube.names import REPORTING_CONTROLLER
from leadsman.kube.objects import Event, ObjectIdentity, ObjectMeta, ObjectReference
from leadsman.kube.resources import CORE_EVENTS, EVENTS_V1
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

MAX_EVENTS_READ = 500
"""One listing reads this many Events: more than one in 10 s for the hour that they are kept."""

LONGEST_NOTE_BYTES = 1024
"""The API server refuses more."""

_LONGEST_REASON = 128


class _Events(Struct, frozen=True):
    items: tuple[Event, ...] = ()


async def warnings_about(client: ApiClient, about: ObjectMeta | ObjectIdentity) -> tuple[Event, ...]:
    """Reads the Warning Events about the object with this UID, at most MAX_EVENTS_READ. Raises ApiError."""
    query = {"fieldSelector": f"involvedObject.uid={about.uid},type=Warning", "limit": str(MAX_EVENTS_READ)}
    return (await client.get(CORE_EVENTS.path(about.namespace), _Events, query)).items


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
        """Queues an Event about an object, in its namespace or, where it has none, in "default".

        reason: why, in CamelCase. action: what was done or tried, in CamelCase. name: the Event's, for one that is
        written once, no matter which replica leads; "": a name of its own.
        """
        if len(self._pending) >= MAX_PENDING:
            self._pending.popleft()
            self.dropped += 1
        regarding = {"kind": about.kind, "namespace": about.namespace, "name": about.name, "uid": about.uid}
        named = {"name": name} if name else {"generateName": f"{about.name[:200].rstrip('.')}-"}
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {**named, "namespace": about.namespace or "default"},
            "eventTime": self._wall_clock().isoformat(timespec="microseconds"),
            "type": "Warning" if warning else "Normal",
            "reason": reason[:_LONGEST_REASON],
            "note": note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore"),
            "action": action,
            "reportingController": self._controller,
            "reportingInstance": self._identity[:128],
            "regarding": {"apiVersion": api_version} | {key: value for key, value in regarding.items() if value},
        }
        self._pending.append(event)
        self._not_empty.set()

    async def run(self) -> None:
        """Writes until cancelled. An Event that the API server refuses is dropped: what it reports is done anyway."""
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
