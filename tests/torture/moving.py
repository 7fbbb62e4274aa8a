"""The moving load: plans move pods between four nodes, one plan after another, handed over as by `plan apply`.

kube-scheduler, kubelets and owners are played here: what holds room is bound, and an evicted pod's owner makes another
one, which goes where an extender lets it. One pod has a disruption budget that allows no eviction.
"""

import asyncio
import contextlib
import itertools
import time
from random import Random
from typing import Any

from leadsman.cli.demo import scheduler_request
from leadsman.published.moves import MOVE_PLAN, MOVES, HandedOverPlan, MovePlan, PlannedMove, PlanOrigin, RunState
from leadsman.testbed.api_objects import ObjectPath
from tests.testbed.scripted_api_server import FakeApiServer
from tests.torture.cluster import Cluster
from tests.torture.load import PODS, SchedulerClient
from tests.torture.log import Landed, PlanHandedOver, RoomHeld
from tests.torture.shape import EXTENDERS, GUARDED_WORKLOAD, MOVE_NODES, MOVED_WORKLOADS

CONFIG_MAPS, HOLDS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/leadsman-placeholders/pods"
BUDGET = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{GUARDED_WORKLOAD}"
LOOK_SECONDS, PLAN_SECONDS = 0.5, 150.0
"""A plan that did not end after this is followed by another."""

ENDED = (RunState.DONE, RunState.ABORTED, RunState.REFUSED)


async def move_pods(cluster: Cluster, client: SchedulerClient, seed: int) -> None:
    """Hands over plans and carries out what they lead to, until cancelled."""
    mover = _Moving(cluster, client, seed)
    await asyncio.to_thread(mover.create)
    while True:
        with contextlib.suppress(TimeoutError):  # An API server that is too busy for us is looked at again.
            await asyncio.to_thread(mover.look)
        for workload in mover.evicted():
            await mover.make_again(workload)
        await asyncio.sleep(LOOK_SECONDS)


class _Moving:
    """pods: workload → UID and node of its pod."""

    def __init__(self, cluster: Cluster, client: SchedulerClient, seed: int) -> None:
        self._cluster, self._client, self._rng = cluster, client, Random(f"moves {seed}")
        self._pods = {workload: (f"{workload}-0", self._rng.choice(MOVE_NODES)) for workload in WORKLOADS}
        self._plan, self._until = "", 0.0
        self._numbers = itertools.count(1)

    def create(self) -> None:
        status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": GUARDED_WORKLOAD}}}
        self._cluster.api.put(BUDGET, {"spec": spec, "status": status})
        for workload, (uid, node) in self._pods.items():
            self._cluster.api.put(f"{PODS}/{uid}", _owned(workload, uid, node))

    def look(self) -> None:
        """Binds what holds room, and hands over the next plan when the last one ended. A silent API server takes
        nothing."""
        if self._cluster.api.call(lambda server: server.speaking.is_set()):
            where = ObjectPath("/api/v1/pods", namespace="leadsman-placeholders")
            for hold in self._cluster.api.call(lambda server: server.objects.all(where)):
                if not hold["spec"].get("nodeName"):
                    self._bind_hold(hold)
            if time.monotonic() > self._until or self._ended():
                self._hand_over()

    def _bind_hold(self, hold: dict[str, Any]) -> None:
        terms = hold["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node, name = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0], hold["metadata"]["name"]
        self._cluster.log.append(RoomHeld(time.monotonic(), name.removeprefix("hold-"), node))
        self._cluster.api.put(f"{HOLDS}/{name}", {**hold, "spec": {**hold["spec"], "nodeName": node}})

    def _ended(self) -> bool:
        found = self._cluster.api.call(_moves_state)
        progress = MOVES.decode(found.encode()).progress if found else None
        return progress is not None and progress.plan == self._plan and progress.state in ENDED

    def _hand_over(self) -> None:
        """Every pod goes to another node."""
        moves = []
        for uid, node in self._pods.values():
            target = self._rng.choice([each for each in MOVE_NODES if each != node])
            moves.append(
                PlannedMove(
                    pod_uid=uid,
                    namespace="default",
                    name=uid,
                    from_node=node,
                    to_node=target,
                    to_node_uid=target,
                    reason="it moves to and fro",
                )
            )
        plan = MovePlan(origin=PlanOrigin.OPTIMISE, taken_at=time.time(), moves=tuple(moves))
        targets = {each.pod_uid: each.to_node for each in moves}
        self._plan, self._until = plan.id, time.monotonic() + PLAN_SECONDS
        self._cluster.log.append(PlanHandedOver(time.monotonic(), plan.id, targets))
        self._cluster.api.put(f"{CONFIG_MAPS}/{MOVE_PLAN.config_map}", dict(MOVE_PLAN.fields(HandedOverPlan(plan))))

    def evicted(self) -> list[str]:
        return [workload for workload, (uid, _) in self._pods.items() if uid in self._cluster.evicted_at]

    async def make_again(self, workload: str) -> None:
        """As its owner and kube-scheduler do; what no extender lets anywhere is tried again at the next look."""
        (old_uid, left), number = self._pods[workload], next(self._numbers)
        uid, extender = f"{workload}-{number}", EXTENDERS[number % 2]
        args = scheduler_request.captured_args(MOVE_NODES, {})
        made = _owned(workload, uid, "")
        args["Pod"]["metadata"] |= {"name": uid, "namespace": "default", "uid": uid, **made["metadata"]}
        args["Pod"]["spec"] |= made["spec"]
        done = await self._client.schedule(extender, args)
        if done.kept:
            node = max(dict(done.scores), key=lambda host: dict(done.scores)[host], default=done.kept[0])
            await asyncio.to_thread(self._cluster.api.put, f"{PODS}/{uid}", _owned(workload, uid, node))
            evicted_at = self._cluster.evicted_at[old_uid]
            self._cluster.log.append(Landed(time.monotonic(), extender, node, left, evicted_at))
            self._pods[workload] = uid, node


WORKLOADS = (*MOVED_WORKLOADS, GUARDED_WORKLOAD)


def _moves_state(server: FakeApiServer) -> str:
    """What the controller remembers of moves; "": nothing yet."""
    maps = server.objects.all(ObjectPath("/api/v1/configmaps", namespace="default"))
    return next((each["data"][MOVES.key] for each in maps if each["metadata"]["name"] == MOVES.config_map), "")


def _owned(workload: str, uid: str, node: str) -> dict[str, Any]:
    """A ready pod of a ReplicaSet. node: "": it has none yet."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}
    return {
        "metadata": {"uid": uid, "labels": {"app": workload}, "ownerReferences": [owner]},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
