"""Holds the cluster's nodes: as watched, and as patched where the watch does not show the patch yet."""

from collections.abc import Mapping
from typing import Protocol

from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata
from leadsman.planning.labels.ownership import NodeView


class WatchedNodes(Protocol):
    """A Reflector of nodes, metadata only."""

    @property
    def current(self) -> Mapping[ObjectKey, PartialObjectMetadata]: ...


class NodeCache:
    """The newest version of each node, from the watch or from the response to our patch.

    A patch that names a resourceVersion and succeeds makes the node's next version. So as long as the watch still shows
    the version that was patched, the patch's response is newer.
    """

    def __init__(self, watched: WatchedNodes) -> None:
        self._watched = watched
        self._patched: dict[str, tuple[str, PartialObjectMetadata]] = {}

    @property
    def current(self) -> Mapping[str, PartialObjectMetadata]:
        """Node → its object."""
        nodes = {name: node for (_, name), node in self._watched.current.items()}
        for name, (patched_version, response) in list(self._patched.items()):
            watched = nodes.get(name)
            if watched is None or watched.metadata.resource_version != patched_version:
                del self._patched[name]
            else:
                nodes[name] = response
        return nodes

    def uid(self, name: str) -> str:
        """The node's UID; "" when there is no such node."""
        node = self._watched.current.get(("", name))
        return node.metadata.uid if node is not None else ""

    def views(self) -> list[NodeView]:
        """What planners use of each node."""
        nodes = ((name, node.metadata) for name, node in self.current.items())
        return [
            NodeView(name, meta.labels, meta.annotations, meta.resource_version, _excess(meta)) for name, meta in nodes
        ]

    def record_patch(self, name: str, response: PartialObjectMetadata) -> None:
        """response: the API server's, to a patch of the version that `current` showed."""
        watched = self._watched.current.get(("", name))
        if watched is not None:
            self._patched[name] = (watched.metadata.resource_version, response)


def _excess(metadata: ObjectMeta) -> str:
    """Any label may be somebody's that has the key of a mark; of the annotations only ours count."""
    labels = metadata.labels
    if labels.cut:
        return f"it has more than {labels.max_bytes:,} bytes of labels; remove those that nobody needs"
    return metadata.annotations.excess
