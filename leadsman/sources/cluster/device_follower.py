"""Follows the devices of all nodes on the API server: nodes, pods, and the objects of Dynamic Resource Allocation where
it has them. RBAC: daemonset/components/devices.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import structs
from prometheus_client import Metric

from leadsman.cluster.devices.cards import prepare_cards
from leadsman.cluster.devices.node_devices import NO_DEVICES, ClaimRequests, DeviceCount, NodeDevices, node_devices
from leadsman.cluster.model import ClusterNode
from leadsman.decision.inputs import AskedDevices, DeviceInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectMeta
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
from leadsman.sources.cluster.cluster_follower import ClusterAssembly
from leadsman.sources.cluster.cluster_objects import NodeObject
from leadsman.sources.cluster.device_objects import (
    ClaimSpec,
    Counted,
    DeviceClassObject,
    DeviceId,
    PublishedDevice,
    ResourceClaimObject,
    ResourceClaimTemplateObject,
    ResourceSliceObject,
    Selection,
    expressions,
)
from leadsman.sources.cluster.device_selectors import BadSelector, Selector
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS
from leadsman.sources.source import follow, run_all

# Counts the devices of each node that drivers publish, and how many of them claims ask for. No I/O.
#
# Changes come one by one, and only the nodes that they concern are counted again.

MAX_SELECTIONS = 64
"""At most this many selections are counted at a time: a new one is evaluated for every device."""

PoolId = tuple[str, str]
"""Driver and pool."""


_NodeCount = tuple[Sequence[tuple[PublishedDevice, bool]], Mapping[str, DeviceCount]]
"""The devices of one node, each with whether it is free, and how many each driver has."""


_NO_DEVICES: _NodeCount = (), {}


class ClaimDevices:
    """Keeps what is published, asked and given, and counts for each node what follows from it.

    claims: namespace/name → what a claim asks that was given nothing yet. templates: the same of templates.
    """

    def __init__(self) -> None:
        self.claims: dict[str, ClaimRequests] = {}
        self.templates: dict[str, ClaimRequests] = {}
        self._pools: dict[PoolId, dict[str, ResourceSliceObject]] = defaultdict(dict)
        self._pools_of_node: dict[str, set[PoolId]] = defaultdict(set)
        self._taken: Counter[DeviceId] = Counter()
        self._classes: dict[str, DeviceClassObject] = {}
        self._asked: dict[tuple[str, str], Sequence[Selection]] = {}
        self._selections: dict[Selection, Sequence[Selector]] = {}
        self._problems: dict[Selection, str] = {}
        self._nodes: dict[str, _NodeCount] = {}
        self._selected: dict[str, Mapping[str, DeviceCount]] = {}
        self._stale = set[str]()
        self._selections_stale = False

    @property
    def problems(self) -> Mapping[str, str]:
        """Maps each selection that is not counted to why."""
        return {str(selection): problem for selection, problem in self._problems.items()}

    @property
    def extended(self) -> Mapping[str, str]:
        """Maps each extended resource to the selection that it stands for; of classes sharing a name, the last."""
        named = ((each.spec.extended_resource_name, name) for name, each in sorted(self._classes.items()))
        return {resource: str(Selection(name)) for resource, name in named if resource}

    def drivers_of(self, node: str) -> Mapping[str, DeviceCount]:
        """Maps each driver to its devices on the node."""
        return self._nodes.get(node, _NO_DEVICES)[1]

    def selected_on(self, node: str) -> Mapping[str, DeviceCount]:
        """Maps each selection to its devices on the node."""
        return self._selected.get(node, {})

    def slices_changed(self, changes: Iterable[ObjectChange[ResourceSliceObject]]) -> None:
        """Takes in changed slices; devices that belong to no single node are left out."""
        for change in changes:
            spec, name = change.object.spec, change.object.metadata.name
            for each in filter(None, (change.old, change.object)):
                self._pool_changed((each.spec.driver, each.spec.pool.name))
                if name in (slices := self._pools.get((each.spec.driver, each.spec.pool.name), {})):
                    del slices[name]
                    if not slices:
                        del self._pools[each.spec.driver, each.spec.pool.name]
            if change.kind is not ChangeType.DELETED and spec.node_name:
                pool = (spec.driver, spec.pool.name)
                self._pools[pool][name] = change.object
                self._pools_of_node[spec.node_name].add(pool)
                self._stale.add(spec.node_name)

    def claims_changed(self, changes: Iterable[ObjectChange[ResourceClaimObject]]) -> None:
        """Takes in changed claims; one that was given devices asks for none any more."""
        for change in changes:
            now = None if change.kind is ChangeType.DELETED else change.object
            before, after = (set(each.allocated()) if each else set[DeviceId]() for each in (change.old, now))
            self._taken.subtract(before)
            self._taken.update(after)
            for device in before ^ after:
                self._pool_changed((device.driver, device.pool))
                if not self._taken[device]:
                    del self._taken[device]
            asking = now is not None and now.status.allocation is None
            self._ask(self.claims, "claim", change.object.metadata, change.object.spec if asking else None)

    def templates_changed(self, changes: Iterable[ObjectChange[ResourceClaimTemplateObject]]) -> None:
        """Takes in changed templates; the claim made from one exists before its pod is asked about."""
        for change in changes:
            spec = None if change.kind is ChangeType.DELETED else change.object.spec.spec
            self._ask(self.templates, "template", change.object.metadata, spec)

    def classes_changed(self, changes: Iterable[ObjectChange[DeviceClassObject]]) -> None:
        """Takes in changed classes, and counts again what selects by them."""
        for change in changes:
            name = change.object.metadata.name
            self._classes.pop(name, None)
            self._asked.pop(("class", name), None)
            if change.kind is not ChangeType.DELETED:
                self._classes[name] = change.object
                if change.object.spec.extended_resource_name:
                    self._asked["class", name] = (Selection(name),)
            self._selections = {key: each for key, each in self._selections.items() if key.device_class != name}
        self._selections_stale = True

    def update(self) -> set[str]:
        """Counts again what changed, and returns the nodes whose counts differ from before."""
        added = self._update_selections() if self._selections_stale else {}
        before = {str(selection) for selection in self._selections if selection not in added}
        again = set(self._nodes) if self._selections_stale else set[str]()
        changed = set[str]()
        for node in again | self._stale:
            drivers, selected = self.drivers_of(node), self.selected_on(node)
            if node in self._stale:
                self._nodes[node] = self._count(node)
                self._selected[node] = self._select(node, self._selections)
            else:
                rest = {name: count for name, count in selected.items() if name in before}
                self._selected[node] = rest | self._select(node, added)
            if (drivers, selected) != (self.drivers_of(node), self.selected_on(node)):
                changed.add(node)
            if not self._nodes[node][0]:
                del self._nodes[node], self._selected[node]
        self._stale.clear()
        self._selections_stale = False
        return changed

    def _pool_changed(self, pool: PoolId) -> None:
        """The devices of its nodes are counted again."""
        self._stale |= {each.spec.node_name for each in self._pools.get(pool, {}).values()}

    def _ask(self, table: dict[str, ClaimRequests], kind: str, metadata: ObjectMeta, spec: ClaimSpec | None) -> None:
        key = f"{metadata.namespace}/{metadata.name}"
        if spec is None:
            table.pop(key, None)
            self._selections_stale |= self._asked.pop((kind, key), None) is not None
        else:
            table[key] = spec.requests()
            selections = tuple(spec.selections())
            self._selections_stale |= self._asked.get((kind, key)) != selections
            self._asked[kind, key] = selections

    def _update_selections(self) -> Mapping[Selection, Sequence[Selector]]:
        """Forgets the selections that nobody asks for any more, and returns the new ones."""
        asked = dict.fromkeys(chain.from_iterable(self._asked.values()))
        self._selections = {key: each for key, each in self._selections.items() if key in asked}
        self._problems, added = {}, dict[Selection, Sequence[Selector]]()
        for selection in asked.keys() - self._selections.keys():
            device_class = self._classes.get(selection.device_class)
            if device_class is None:
                self._problems[selection] = f"DeviceClass {selection.device_class} does not exist, or is not seen"
            elif len(self._selections) >= MAX_SELECTIONS:
                self._problems[selection] = f"claims select devices in more than {MAX_SELECTIONS} ways"
            else:
                texts = (*expressions(device_class.spec.selectors), *selection.expressions)
                try:
                    added[selection] = [Selector(text) for text in texts]
                    self._selections[selection] = added[selection]
                except BadSelector as error:
                    self._problems[selection] = f"a selector cannot be evaluated here: {error}"
        return added

    def _count(self, node: str) -> _NodeCount:
        """Counts the devices of a node: of a pool, the newest generation. A part of a divided device is free while the
        pool's counters have what it takes left, beside those that were given."""
        listed = list[tuple[PublishedDevice, bool]]()
        pools = {pool for pool in self._pools_of_node.pop(node, ()) if pool in self._pools}
        if pools:
            self._pools_of_node[node] = pools
        for pool in pools:
            slices = self._pools[pool].values()
            newest = max((each.spec.pool.generation for each in slices), default=0)
            current = [each for each in slices if each.spec.pool.generation == newest]
            left = _counters_left(current, self._taken)
            for each in current:
                if each.spec.node_name == node:
                    listed += [(device, _is_free(device, self._taken, left)) for device in each.devices()]
        total = Counter(device.identity.driver for device, _ in listed)
        free = Counter(device.identity.driver for device, is_free in listed if is_free)
        return listed, {driver: DeviceCount(count, free[driver]) for driver, count in total.items()}

    def _select(self, node: str, selections: Mapping[Selection, Sequence[Selector]]) -> dict[str, DeviceCount]:
        """Counts the node's devices that each selection selects."""
        counts = dict[str, DeviceCount]()
        for selection, selectors in selections.items():
            free = [
                is_free
                for device, is_free in self._nodes[node][0]
                if all(each.selects(device.identity.driver, device.fields) for each in selectors)
            ]
            if free:
                counts[str(selection)] = DeviceCount(len(free), sum(free))
        return counts


def _counters_left(slices: Iterable[ResourceSliceObject], taken: Container[DeviceId]) -> Counter[Counted]:
    """Counts what is left of one pool's counters. Its counters and the devices that take of them may be in different
    slices."""
    left = Counter[Counted]()
    for each in slices:
        left.update(each.counters())
        for device in each.devices():
            if device.identity in taken:
                left.subtract(device.takes)
    return left


def _is_free(device: PublishedDevice, taken: Container[DeviceId], left: Mapping[Counted, int]) -> bool:
    if not device.usable or (device.identity in taken and not device.shareable):
        return False
    return all(amount <= left[counter] for counter, amount in device.takes.items())


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
            if pod.devices is not None or (before and before.devices is not None):
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
        if table != self._inputs.nodes:
            self._inputs = structs.replace(self._inputs, nodes=table)

    def _node_devices(self, node: ClusterNode) -> NodeDevices:
        name, of_claims = node.name, self._claim_devices
        pods = self._assembly.cluster.pods_on(name)
        return node_devices(node, pods, of_claims.drivers_of(name), of_claims.selected_on(name))
