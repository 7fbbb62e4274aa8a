"""Shows self-healing's keepers the cluster, the health of its nodes, and the state that extenders follow, and
writes the pods that hold room for them.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller.keeper import Actions, Memory, Tools
from controller.settings import PlaceholderSettings, SelfHealingSettings
from leadsman.cluster.constraints import Toleration
from leadsman.cluster.model import Cluster
from leadsman.kube.client import PatchType
from leadsman.kube.errors import ApiError, NotFound, NotLeader, Unavailable
from leadsman.kube.names import (
    PLACEHOLDER_LABEL,
    PLACEHOLDER_NAMESPACE,
    PLACEHOLDER_PRIORITY_CLASS,
)
from leadsman.kube.resources import PODS
from leadsman.planning.backups.placeholders import (
    CreatePlaceholder,
    DeletePlaceholder,
    PlaceholderAction,
    ResizePlaceholder,
    node_label,
)
from leadsman.planning.failover.node_verdict import NodeHealth, NodeVerdict
from leadsman.planning.moves.mover import HoldRoom
from leadsman.published.self_healing import SELF_HEALING, Hold, SelfHealingState
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.cluster.cluster_follower import ClusterFollower

MAX_PODS_SHOWN = 200

MOVE_HOLD_PREFIX = "move of "


class HealedCluster:
    """Holds the cluster that self-healing keeps, and what is published of it.

    verdicts: on every node, by name.
    published: the state that extenders follow; recovery writes it.
    """

    def __init__(
        self, tools: Tools, settings: SelfHealingSettings, verdicts: Callable[[], Mapping[str, NodeVerdict]]
    ) -> None:
        self.settings, self.verdicts = settings, verdicts
        self.follower = ClusterFollower(tools.client)
        self.published = Memory(tools, SELF_HEALING, SelfHealingState())

    @property
    def current(self) -> Cluster | None:
        """Returns the cluster; None while it is not listed."""
        return self.follower.current

    @property
    def unhealthy(self) -> frozenset[str]:
        """Returns dead and suspect nodes."""
        return frozenset(name for name, verdict in self.verdicts().items() if verdict.state is not NodeHealth.HEALTHY)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Returns the published room that must stay free; none before the state is read."""
        state = self.published.value
        return state.recovery.holds if state else ()

    def publishes_hold_of_move(self, pod_uid: str) -> bool:
        """Tells whether extenders can know of the room that the move of this pod keeps."""
        return any(hold.pod_uid == move_hold_uid(pod_uid) for hold in self.holds)


def move_hold_uid(pod_uid: str) -> str:
    """Returns the `pod_uid` of a move's holds, which tells them from those of a failover."""
    return f"{MOVE_HOLD_PREFIX}{pod_uid}"


# Placeholders are pods that do nothing but request room on one node. Pod Security: restricted.

_log = logging.getLogger(__name__)

WRITES_PER_SECOND, WRITES_BURST = 20.0, 50

CONTAINER = "hold"
GRACE_SECONDS = 1

NEEDS_LIMITS = ("hugepages-",)


class PlaceholderWriter:
    """Creates, resizes and deletes placeholders, one after the other.

    problems: node → why its placeholders could not be created or resized when that was last tried.
    deleted: UIDs of the placeholders that this process deleted: they are not lost.
    """

    def __init__(self, tools: Tools, settings: PlaceholderSettings) -> None:
        self.problems: dict[str, str] = {}
        self.deleted: set[str] = set()
        self._client, self._settings = tools.client, settings
        self._rate = TokenBucket(WRITES_PER_SECOND, WRITES_BURST)
        self._actions = Actions(
            _log,
            "controller cannot write placeholders; the next plan tries again",
            "controller writes placeholders again",
        )

    async def apply(self, actions: Iterable[PlaceholderAction], node_of: Mapping[str, str]) -> None:
        """Executes the actions. What is refused stands in `problems`, and the next plan tries it again.

        node_of: UID of a placeholder → its node.
        """
        self.problems = {}

        async def act(action: PlaceholderAction) -> str:
            await self._rate.wait()
            try:
                await self._execute(action)
            except (NotFound, NotLeader, Unavailable):
                raise
            except ApiError as error:
                node = action.node if isinstance(action, CreatePlaceholder) else node_of.get(action.uid, "")
                self.problems[node] = f"the API server refuses its placeholder: {error}"
                raise
            _log.info("%sd placeholder %s: %s", _VERBS[type(action).__name__], _described(action), action.reason)
            return "done"

        await self._actions.carry_out(actions, act)

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
    labels = {PLACEHOLDER_LABEL: node_label(action.node), "app.kubernetes.io/part-of": "leadsman"}
    return room_body({"generateName": "placeholder-", "labels": labels}, action, settings)


def room_body(
    metadata: Mapping[str, Any], room: CreatePlaceholder | HoldRoom, settings: PlaceholderSettings
) -> dict[str, Any]:
    """Makes a pod that holds room. kube-scheduler places it, which is how it sees that there is room."""
    sizes = {"cpu": f"{room.requests.cpu_millis}m", "memory": str(room.requests.memory_bytes)}
    requests = sizes | {name: str(amount) for name, amount in room.requests.extended.items()}
    limits = {name: amount for name, amount in requests.items() if "/" in name or name.startswith(NEEDS_LIMITS)}
    name_is_node = {"key": "metadata.name", "operator": "In", "values": [room.node]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "namespace": PLACEHOLDER_NAMESPACE},
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
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
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
