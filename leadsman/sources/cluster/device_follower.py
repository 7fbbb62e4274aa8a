"""Follows the devices of all nodes on the API server: nodes, pods, and the objects of Dynamic Resource Allocation where
it has them. RBAC: daemonset/components/devices.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs
from prometheus_client import Metric

from leadsman.cluster.devices.cards import prepare_cards
from leadsman.cluster.devices.node_devices import NO_DEVICES, NodeDevices, node_devices
from leadsman.cluster.model import ClusterNode
from leadsman.decision.inputs import AskedDevices, DeviceInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from leadsman.runtime.lru import LruCache
from leadsman.runtime.scrape import gauge
from leadsman.sources.cluster.claim_devices import ClaimDevices
from leadsman.sources.cluster.cluster_follower import ClusterAssembly
from leadsman.sources.cluster.cluster_objects import NodeObject
from leadsman.sources.cluster.device_objects import (
    DeviceClassObject,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    ResourceSliceObject,
)
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS
from leadsman.sources.source import follow, run_all

DISCOVERY_SECONDS = 300.0
"""Once in this time the API server is asked whether it has resource.k8s.io/v1 by now."""

MAX_DEPARTED = 10_000
"""Pods that ended lately, whose reservations are released."""

NODES_AT_ONCE = 50
"""Prepared before anything else may run: some 4 ms. Of 5,000 nodes of eight cards it takes 0.3 s at a start."""

MAX_AGE_SECONDS = 90.0
"""A watch of the API server is confirmed once a minute. Older, a bound pod may be missing whose reservation
has ended."""

log = logging.getLogger(__name__)


class DeviceFollower:
    """Keeps the devices up to date. `run` it as one task; readers take `current`.

    follows_claims: whether ResourceSlices, ResourceClaims, their templates and DeviceClasses are followed too.
    reserved_uids: the pods that something was reserved for before this process began. It is called once, before pods
    are listed, so those that the list has not have ended.
    """

    def __init__(
        self,
        client: ApiClient,
        follows_claims: bool = True,
        reserved_uids: Callable[[], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        self._reserved_uids, self._reserved_before = reserved_uids, frozenset[str]()
        self._client, self._follows_claims = client, follows_claims
        self._assembly = ClusterAssembly()
        self._changed: set[str] = set()
        self._departed: LruCache[str, bool] = LruCache(MAX_DEPARTED)
        self._claim_devices = ClaimDevices()
        self._claims_changed = False
        self._inputs = DeviceInputs(followed=True)
        self._stale = asyncio.Event()
        self.nodes = follow(client, ListOptions(NODES), NodeObject, self._nodes_changed)
        pods = ListOptions(PODS, field_selector=UNFINISHED_PODS)
        self.pods = follow(client, pods, PodObject, self._pods_changed)
        kinds: Sequence[tuple[Resource, type[Any], Callable[[Sequence[ObjectChange[Any]]], None]]] = (
            (RESOURCE_SLICES, ResourceSliceObject, self._claim_devices.slices_changed),
            (DEVICE_CLASSES, DeviceClassObject, self._claim_devices.classes_changed),
            (RESOURCE_CLAIMS, ResourceClaimObject, self._claim_devices.claims_changed),
            (RESOURCE_CLAIM_TEMPLATES, ResourceClaimTemplateObject, self._claim_devices.templates_changed),
        )
        self._of_claims = [
            follow(client, ListOptions(resource), kind, self._then_count(apply)) for resource, kind, apply in kinds
        ]

    @property
    def current(self) -> DeviceInputs:
        """Returns the devices now, without reservations; the same object while nothing changes."""
        if self._claims_changed:
            self._update_claims()
        if self._changed:
            self._update_nodes()
        return self._inputs

    def problem(self) -> str:
        """Says why the view cannot be relied on for what pods were given; "" when it can be."""
        for reflector in (self.nodes, self.pods):
            plural = reflector.list_options.resource.plural
            if not reflector.loaded.is_set():
                return f"the {plural} were not listed yet; the extender's log says why"
            if reflector.age_seconds(time.monotonic()) > MAX_AGE_SECONDS:
                return f"the view of {plural} is older than {MAX_AGE_SECONDS:g} s; the extender's log says why"
        return ""

    def is_settled(self, uid: str) -> bool:
        """Tells whether the pod is seen bound, or ended: its reservation is confirmed, or released."""
        pod = self._assembly.cluster.pods.get(uid)
        if pod is not None:
            return bool(pod.node)
        return self._departed.get(uid) is not None or (self.pods.loaded.is_set() and uid in self._reserved_before)

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        nodes = self.current.nodes.values()
        bound = "Pods that are seen bound and ask something of their node's devices."
        yield gauge("leadsman_extender_device_pods", bound, sum(len(node.pods) for node in nodes))
        free = sum(driver.free for node in nodes for driver in node.drivers.values())
        left = "Devices of ResourceSlices that no ResourceClaim was given."
        yield gauge("leadsman_extender_claim_devices_free", left, free)

    async def run(self) -> None:
        """Follows until cancelled."""
        if self._reserved_uids:
            self._reserved_before = frozenset(await self._reserved_uids())
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run(), name="watch the devices of nodes")
            group.create_task(self.pods.run(), name="watch the devices of pods")
            if self._follows_claims:
                group.create_task(self._run_claims(), name="watch resource slices and claims")
            group.create_task(self._prepare(), name="prepare the devices of nodes")

    async def _prepare(self) -> None:
        """Computes what a request would compute of changed nodes, before one comes."""
        prepared: Mapping[str, NodeDevices] = {}
        while True:
            await self._stale.wait()
            self._stale.clear()
            nodes = self.current.nodes
            changed = [devices for name, devices in nodes.items() if prepared.get(name) is not devices]
            for at, devices in enumerate(changed, start=1):
                prepare_cards(devices)
                if at % NODES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            prepared = nodes

    async def _run_claims(self) -> None:
        while not await self._has_claims():  # noqa: ASYNC110  # nobody tells when an API server is upgraded
            await asyncio.sleep(DISCOVERY_SECONDS)
        await run_all(self._of_claims)

    async def _has_claims(self) -> bool:
        try:
            await self._client.get(f"/apis/{RESOURCE_SLICES.api_version}", dict[str, Any])
        except NotFound:
            return False
        except ApiError as error:
            log.warning("cannot see whether the API server has %s: %s", RESOURCE_SLICES.api_version, error)
            return False
        return True

    def _nodes_changed(self, changes: Sequence[ObjectChange[NodeObject]]) -> None:
        self._assembly.apply("Node", changes)
        self._changed.update(change.object.model.name for change in changes)
        self._stale.set()

    def _pods_changed(self, changes: Sequence[ObjectChange[PodObject]]) -> None:
        for change in changes:
            pod, before = change.object.model, self._assembly.cluster.pods.get(change.object.model.uid)
            if pod.devices is not None:
                self._changed.update(filter(None, (pod.node, before.node if before else "")))
                if change.kind is ChangeType.DELETED or change.object.finished:
                    self._departed.put(pod.uid, True)
        self._assembly.apply("Pod", changes)
        if self._changed:
            self._stale.set()

    def _then_count(
        self, apply: Callable[[Sequence[ObjectChange[Any]]], None]
    ) -> Callable[[Sequence[ObjectChange[Any]]], None]:
        def on_changes(changes: Sequence[ObjectChange[Any]]) -> None:
            apply(changes)
            self._claims_changed = True
            self._stale.set()

        return on_changes

    def _update_claims(self) -> None:
        self._claims_changed = False
        of_claims = self._claim_devices
        self._changed |= of_claims.update()
        asked = AskedDevices(dict(of_claims.claims), dict(of_claims.templates), of_claims.extended, of_claims.problems)
        if asked != self._inputs.asked:
            self._inputs = structs.replace(self._inputs, asked=asked)

    def _update_nodes(self) -> None:
        table: dict[str, NodeDevices] = dict(self._inputs.nodes)
        cluster = self._assembly.cluster
        for name in self._changed:
            node = cluster.nodes.get(name)
            devices = NO_DEVICES if node is None else self._node_devices(node)
            if devices == NO_DEVICES:
                table.pop(name, None)
            elif table.get(name) != devices:
                table[name] = devices
        self._changed.clear()
        self._inputs = structs.replace(self._inputs, nodes=table)

    def _node_devices(self, node: ClusterNode) -> NodeDevices:
        name, of_claims = node.name, self._claim_devices
        pods = self._assembly.cluster.pods_on(name)
        return node_devices(node, pods, of_claims.drivers_of(name), of_claims.selected_on(name))
