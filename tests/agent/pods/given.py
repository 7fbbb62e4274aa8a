"""Pods as the API server shows them, in the API's own JSON."""

import json
from random import Random
from typing import Any

from agent.node_ownership import NodeOwnership, claim_node
from agent.pods.incident_ledger import IncidentLedger
from agent.pods.reward_persistence import RewardPersistence
from leadsman.kube.decoding import decode_json
from leadsman.kube.objects import Event, Pod
from leadsman.state import keys
from leadsman.state.records import Identity
from tests.memory_store import MemoryStore

UID = "0c3a8f5e-7a53-4a3b-9d0e-6f1b2c3d4e5f"
T0 = "2026-03-01T12:00:00Z"


def running(ready: bool = True, started: str = T0, **last: Any) -> dict[str, Any]:
    return {"ready": ready, "state": {"running": {"startedAt": started}}, "lastState": last}


def ended(exit_code: int, reason: str = "Error") -> dict[str, Any]:
    times = {"startedAt": T0, "finishedAt": "2026-03-01T12:00:10Z"}
    return {"terminated": {"exitCode": exit_code, "reason": reason, **times, "containerID": "containerd://8a0d5f"}}


def waiting(reason: str = "ContainerCreating", message: str = "", **last: Any) -> dict[str, Any]:
    return {"ready": False, "state": {"waiting": {"reason": reason, "message": message}}, "lastState": last}


def restarted(count: int, exit_code: int = 1, reason: str = "Error", **more: Any) -> dict[str, Any]:
    """A container that runs again after it ended `count` times."""
    return running(**ended(exit_code, reason), **more) | {"restartCount": count}


def pod(phase: str, *containers: dict[str, Any], **more: Any) -> Pod:
    return decode_json(json.dumps(body(phase, *containers, **more)).encode(), Pod)


def body(phase: str, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """containers: of "app", "sidecar", "third". more: init: container statuses; reason: of the status; ip, labels,
    annotations, uid, name, created, deleted, unready_since."""
    names = ("app", "sidecar", "third")
    image = {"image": "registry.example/shop/app:1.7", "imageID": "sha256:1f0c"}
    status = [{"name": name, "restartCount": 0, **image, **each} for name, each in zip(names, containers, strict=False)]
    init = [{"name": f"init-{n}", "restartCount": 0, **image, **each} for n, each in enumerate(more.get("init", ()))]
    unready = [{"type": "Ready", "status": "False", "lastTransitionTime": more.get("unready_since")}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": more.get("name", "shop-6d5f8b7c9-x2x7p"),
            "namespace": "shop",
            "uid": more.get("uid", UID),
            "creationTimestamp": more.get("created", T0),
            "labels": more.get("labels", {"app": "shop", "pod-template-hash": "6d5f8b7c9"}),
            "annotations": more.get("annotations", {}),
        }
        | ({"deletionTimestamp": T0, "deletionGracePeriodSeconds": 30} if more.get("deleted") else {}),
        "spec": {"nodeName": "edge-1", "containers": [{"name": n, **image} for n in names[: len(containers)]]},
        "status": {
            "phase": phase,
            "reason": more.get("reason"),
            "hostIP": "10.0.0.1",
            "podIP": more.get("ip", "10.244.1.7"),
            "startTime": T0,
            "containerStatuses": status,
            "initContainerStatuses": init or None,
            "conditions": unready if "unready_since" in more else [],
        },
    }


def warning(reason: str, message: str, at: str = "2026-03-01T12:00:05Z", container: str = "") -> Event:
    where = {"fieldPath": f"spec.containers{{{container}}}"} if container else {}
    event = {
        "metadata": {"name": "shop.17a", "namespace": "shop", "uid": "e1"},
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "shop-6d5f8b7c9-x2x7p", "uid": UID, **where},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 3,
        "firstTimestamp": at,
        "lastTimestamp": at,
    }
    return decode_json(json.dumps(event).encode(), Event)


NODE = "edge-1"


class World:
    """The node's etcd, and agents of it one after the other, on a clock that stands still."""

    def __init__(self) -> None:
        self.now, self.store = 0.0, MemoryStore(clock=lambda: self.now)
        self.ownership: NodeOwnership | None = None

    async def agent(self) -> tuple[RewardPersistence, IncidentLedger]:
        """A new process: its claim, its persistence, and the ledger that it opens."""
        await self.claim()
        persistence = RewardPersistence(self.store, NODE, lambda: self.ownership, Random(1), self.fence)
        return persistence, IncidentLedger(
            *await persistence.restore(), lambda: self.now, lambda: 1_772_366_400.0 + self.now
        )

    async def agent_that_saw(self, restarts: int) -> tuple[RewardPersistence, IncidentLedger]:
        """An agent that has counted so many restarts of a pod, and has not saved them."""
        persistence, ledger = await self.agent()
        ledger.on_first_list([])
        ledger.on_pod_updated(pod("Running", restarted(restarts)))
        return persistence, ledger

    async def claim(self) -> None:
        self.ownership = await claim_node(self.store, NODE, Identity("a", 0, "10.0.0.1"), 20)

    def fence(self) -> None:
        self.ownership = None

    async def stored(self) -> dict[str, int]:
        """Maps each key under the node's prefix to its revision."""
        items = (await self.store.read_prefix(keys.node_prefix(NODE))).items
        return {item.key.removeprefix(keys.node_prefix(NODE)): item.mod_revision for item in items}
