"""Follows the nodes on the API server: their labels, and their addresses where Goldpinger needs them."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import ROLE_LABEL
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node, ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.sources.source import follow

_HOSTNAME = "Hostname"
"""The type of an address that is a name, and not always the node's own."""


class _LabelledMetadata(ObjectIdentity, frozen=True, rename="camel"):
    labels: BoundedLabels = BoundedLabels()


class _LabelledNode(Struct, frozen=True, gc=False):
    """A node's identity and labels: of 5,000 nodes their annotations would be 10 MB."""

    metadata: _LabelledMetadata


class NodeFollower:
    """Follows which nodes there are, their label kubernetes.io/role, and all their labels. `run` it as one task.

    roles: node → role, "" without one; empty until they were listed. Replaced, never altered, and kept while the API
        server is away.
    clock: monotonic seconds, for the reflector's age.
    """

    def __init__(self, client: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.roles: Mapping[str, str] = MappingProxyType({})
        self._labels: Mapping[str, Mapping[str, str]] | None = None
        self.reflector = follow(client, ListOptions(NODES, metadata_only=True), _LabelledNode, self._changed, clock)

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]] | None:
        """The labels, for plugins, the same object while none changes; None until they were listed. A node with more
        than 16 KiB of labels has none here, so that what is missing is unknown."""
        if self._labels is None and self.reflector.loaded.is_set():
            nodes = self.reflector.current.items()
            self._labels = {name: node.metadata.labels for (_, name), node in nodes if not node.metadata.labels.cut}
        return self._labels

    def _changed(self, changes: Sequence[ObjectChange[_LabelledNode]]) -> None:
        """Replaces only what has changed: kubelets update their nodes all the time."""
        changed = [each for each in changes if _is_new(each) or _labels(each.object) != _labels(each.old)]
        if changed:
            self._labels = None
        if any(_is_new(each) or _role(each.object) != _role(each.old) for each in changed):
            self.roles = MappingProxyType({name: _role(node) for (_, name), node in self.reflector.current.items()})


def _is_new(change: ObjectChange[_LabelledNode]) -> bool:
    """Tells whether the node came or went."""
    return change.kind is not ChangeType.MODIFIED


def _labels(node: _LabelledNode | None) -> BoundedLabels:
    return node.metadata.labels if node else BoundedLabels()


def _role(node: _LabelledNode | None) -> str:
    return _labels(node).get(ROLE_LABEL, "")


class NodeAddressFollower:
    """Follows the nodes' addresses, for a delay source that knows addresses only. `run` it as one task.

    current: IP → node; replaced, never altered, and kept while the API server is away.
    """

    def __init__(self, client: ApiClient) -> None:
        self.current: Mapping[str, str] = MappingProxyType({})
        self.reflector = Reflector(client, ListOptions(NODES), Node, on_changes=self.apply_changes, cached=True)

    def apply_changes(self, changes: Sequence[ObjectChange[Node]]) -> None:
        """Replaces `current` once for all changes. Most are kubelets' heartbeats, which change no address."""
        nodes = dict(self.current)
        for change in changes:
            before, after = _addresses(change.old), _addresses(change.object)
            if change.kind is ChangeType.DELETED:
                after = {}
            if before != after:
                for address, node in before.items():
                    if nodes.get(address) == node:
                        del nodes[address]
                nodes.update(after)
        if nodes != self.current:
            self.current = MappingProxyType(nodes)


def _addresses(node: Node | None) -> dict[str, str]:
    return {one.address: node.metadata.name for one in node.status.addresses if one.type != _HOSTNAME} if node else {}
