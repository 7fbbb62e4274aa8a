"""Executes the actions of moves: creates and deletes holding pods, and evicts through the Eviction API."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from controller.placeholder_pod import PlaceholderSettings, placeholder_body
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unavailable
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.resources import PODS
from leadsman.planning.backups.placeholders import CreatePlaceholder
from leadsman.planning.moves.model import EvictPod, HoldRoom, MoveAction, ReleaseHold
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

HOLD_LASTS_SECONDS = 600
"""A holding pod ends by itself after this, also when no controller is left that would release it."""

RETRY_EVICTION_SECONDS = 5.0
"""After an eviction that a budget refused, when the API server names no other time."""


class MoveActions:
    """Executes actions, one after the other.

    publishes_hold: whether extenders can know of the holds of this pod's move, by its UID. Its eviction waits for that,
        because its owner makes a new pod at once, which would go back.
    results: (action, result) → how often; result: done, waits, exists, gone, conflict, refused or failed.
    """

    def __init__(
        self,
        client: ApiClient,
        is_leader: Callable[[], bool],
        placeholders: PlaceholderSettings,
        publishes_hold: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.results: Counter[tuple[str, str]] = Counter()
        self._client, self._is_leader, self._placeholders = client, is_leader, placeholders
        self._publishes_hold, self._clock = publishes_hold, clock
        self._evict_not_before: dict[str, float] = {}
        self._problem = ProblemLog(
            _log, "controller cannot move a pod; it tries again", "controller can move pods again"
        )

    async def execute(self, actions: Iterable[MoveAction]) -> None:
        """Executes the actions. When the API server does not answer, the rest is left for the next plan."""
        for action in actions:
            if not self._is_leader() or not await self._tried(action):
                return
        self._problem.clear()

    def forget(self, pod_uid: str) -> None:
        """Forgets when the pod may be evicted, because its move has ended."""
        self._evict_not_before.pop(pod_uid, None)

    async def _tried(self, action: MoveAction) -> bool:
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
            self._problem.report(error)
            return False
        except ApiError as error:
            result = "failed"
            self._problem.report(error)
        self.results[verb, result] += 1
        return True

    async def _execute_one(self, action: MoveAction) -> str:
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
                path = PODS.path(action.namespace, action.name, "eviction")
                await self._client.send(ApiRequest("POST", path, body=eviction_body(action)))
                self._evict_not_before.pop(action.uid, None)
                _log.warning("evicted pod %s/%s: %s", action.namespace, action.name, action.reason)
        return "done"


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
