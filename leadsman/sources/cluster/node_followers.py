"""Follows the nodes on the API server: their metadata, and where Goldpinger needs them their addresses."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import ROLE_LABEL
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node, ObjectIdentity, PartialObjectMetadata
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
    """Follows which nodes there are, and their labels. Its `reflector` runs as one task.

    What it returns is never altered, the same object while no label changes, and kept while the API server is away.
    with_annotations: whether the reflector holds whole metadata, as PartialObjectMetadata.
    with_addresses: whether it holds addresses too, as Node.
    """

    def __init__(self, client: ApiClient, *, with_annotations: bool = False, with_addresses: bool = False) -> None:
        self._roles: Mapping[str, str] | None = None
        self._labels: Mapping[str, Mapping[str, str]] | None = None
        kind: type[Any] = Node if with_addresses else PartialObjectMetadata if with_annotations else _LabelledNode
        self.reflector = follow(client, ListOptions(NODES, metadata_only=not with_addresses), kind, self._changed)

    @property
    def roles(self) -> Mapping[str, str]:
        """Maps each node to its label kubernetes.io/role, "" without one; empty until the nodes were listed."""
        if self._roles is None:
            nodes = self.reflector.current.items()
            self._roles = {name: node.metadata.labels.get(ROLE_LABEL, "") for (_, name), node in nodes}
        return self._roles

    @property
    def labels(self) -> Mapping[str, Mapping[str, str]] | None:
        """Returns the labels for plugins; None until they were listed. A node with more than 16 KiB of labels is left
        out, so that what is missing is unknown."""
        if self._labels is None and self.reflector.loaded.is_set():
            nodes = self.reflector.current.items()
            self._labels = {name: node.metadata.labels for (_, name), node in nodes if not node.metadata.labels.cut}
        return self._labels

    @property
    def addresses(self) -> Mapping[str, str]:
        """Maps each address to its node; made when asked, as that is once a poll of Goldpinger."""
        return {
            each.address: name
            for (_, name), node in self.reflector.current.items()
            for each in node.status.addresses
            if each.type != _HOSTNAME
        }

    def _changed(self, changes: Sequence[ObjectChange[Any]]) -> None:
        """Kubelets update their nodes all the time, and most updates change no label."""
        for each in changes:
            is_same_node = each.old is not None and each.kind is ChangeType.MODIFIED
            if not (is_same_node and each.old and each.old.metadata.labels == each.object.metadata.labels):
                self._roles = self._labels = None
