"""Executes the actions of moves: creates and deletes holding pods, and evicts through the Eviction API."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from controller.healed_cluster import HealedCluster
from controller.keeper import Actions, Tools
from controller.placeholders import placeholder_body
from controller.settings import PlaceholderSettings
from leadsman.kube.client import ApiRequest
from leadsman.kube.errors import Conflict, TooManyRequests
from leadsman.kube.names import HELD_FOR_LABEL, PLACEHOLDER_NAMESPACE
from leadsman.kube.resources import PODS
from leadsman.planning.backups.placeholders import CreatePlaceholder
from leadsman.planning.moves.mover import EvictPod, HoldRoom, MoveAction, ReleaseHold

_log = logging.getLogger(__name__)

HOLD_LASTS_SECONDS = 600
"""A holding pod ends by itself after this, also when no controller is left that would release it."""

RETRY_EVICTION_SECONDS = 5.0
"""After an eviction that a budget refused, when the API server names no other time."""


class MoveActions:
    """Executes actions, one after the other.

    results: (action, result) → how often; result: done, waits, exists, gone, conflict, refused or failed.
    """

    def __init__(self, tools: Tools, healed: HealedCluster) -> None:
        self._tools, self._healed = tools, healed
        self._evict_not_before: dict[str, float] = {}
        self._actions = Actions(_log, "controller cannot move a pod; it tries again", "controller can move pods again")
        self.results: Mapping[tuple[str, str], int] = self._actions.results

    async def execute(self, actions: Iterable[MoveAction]) -> None:
        """Executes the actions. What fails is left for the next plan."""
        await self._actions.carry_out(actions, self._execute)

    def forget(self, pod_uid: str) -> None:
        """Forgets when the pod may be evicted, because its move has ended."""
        self._evict_not_before.pop(pod_uid, None)

    async def _execute(self, action: MoveAction) -> str:
        match action:
            case HoldRoom():
                return await self._hold(action)
            case EvictPod():
                return await self._evict(action)
            case ReleaseHold():
                await self._tools.client.delete(PODS.path(action.namespace, action.name), action.uid)
                _log.info("released %s: %s", action.name, action.reason)
                return "done"

    async def _hold(self, action: HoldRoom) -> str:
        body = hold_body(action, self._healed.settings.placeholders)
        try:
            await self._tools.client.create(PODS.path(PLACEHOLDER_NAMESPACE), body)
        except Conflict:
            return "exists"
        _log.info("holding %s", action.reason)
        return "done"

    async def _evict(self, action: EvictPod) -> str:
        """Waits until extenders can know that room is held: the owner makes a new pod at once, which would go back."""
        now = self._tools.clock()
        if now < self._evict_not_before.get(action.uid, 0.0) or not self._healed.publishes_hold_of_move(action.uid):
            return "waits"
        path = PODS.path(action.namespace, action.name, "eviction")
        try:
            await self._tools.client.send(ApiRequest("POST", path, body=eviction_body(action)))
        except TooManyRequests as error:
            self._evict_not_before[action.uid] = now + (error.retry_after_seconds or RETRY_EVICTION_SECONDS)
            _log.warning("API server refuses the eviction of %s/%s now: %s", action.namespace, action.name, error)
            return "refused"
        self.forget(action.uid)
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
