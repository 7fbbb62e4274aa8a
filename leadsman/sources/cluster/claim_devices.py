"""Counts the devices of each node that drivers publish, and how many of them claims ask for. No I/O.

Changes come one by one, and only the nodes that they concern are counted again.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain

from leadsman.cluster.devices.node_devices import ClaimRequests, DeviceCount
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectMeta
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
                self._pools[each.spec.driver, each.spec.pool.name].pop(name, None)
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
            if change.kind is not ChangeType.DELETED:
                self._classes[name] = change.object
            self._selections = {key: each for key, each in self._selections.items() if key.device_class != name}
            named = change.kind is not ChangeType.DELETED and change.object.spec.extended_resource_name
            self._asked["class", name] = (Selection(name),) if named else ()
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
        self._stale.clear()
        self._selections_stale = False
        return changed

    def _pool_changed(self, pool: PoolId) -> None:
        """The devices of its nodes are counted again."""
        self._stale |= {each.spec.node_name for each in self._pools[pool].values()}

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
        for pool in self._pools_of_node[node]:
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
