"""The cluster's nodes as they are: what is watched, and what we wrote that the watch has not shown yet."""

from collections.abc import Mapping
from typing import Protocol

from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.planning.labels.ownership import NodeView


class WatchedNodes(Protocol):
    """A Reflector of nodes, metadata only."""

    @property
    def current(self) -> Mapping[ObjectKey, PartialObjectMetadata]: ...


class NodeCache:
    """A patch that names a resourceVersion and succeeds makes the node's next version. So until the watch shows another
    one than the one patched, the patch's answer is the newest that is known."""

    def __init__(self, watched: WatchedNodes) -> None:
        self._watched = watched
        self._patched: dict[str, tuple[str, PartialObjectMetadata]] = {}

    @property
    def current(self) -> Mapping[str, PartialObjectMetadata]:
        """Node → its object."""
        watched = {name: node for (_, name), node in self._watched.current.items()}
        for name, (before, written) in list(self._patched.items()):
            node = watched.get(name)
            if node is None or node.metadata.resource_version != before:
                del self._patched[name]
            else:
                watched[name] = written
        return watched

    def views(self) -> list[NodeView]:
        found = ((name, node.metadata) for name, node in self.current.items())
        return [NodeView(name, meta.labels, meta.annotations, meta.resource_version) for name, meta in found]

    def record_patch(self, name: str, answer: PartialObjectMetadata) -> None:
        """answer: the API server's, to a patch of the version that `current` showed."""
        watched = self._watched.current.get(("", name))
        if watched is not None:
            self._patched[name] = (watched.metadata.resource_version, answer)
