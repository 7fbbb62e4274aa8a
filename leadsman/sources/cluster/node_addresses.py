"""Maps addresses to nodes, from the API server, for a delay source that knows addresses only."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES

_HOSTNAME = "Hostname"
"""The type of an address that is a name, and not always the node's own."""

_NodeByAddress = Mapping[str, str]


class NodeAddressFollower:
    """Follows the nodes' addresses. `run` it as one task.

    current: IP → node; replaced, never altered, and kept while the API server is away.
    """

    def __init__(self, client: ApiClient) -> None:
        self.current: _NodeByAddress = MappingProxyType({})
        self.reflector = Reflector(client, ListOptions(NODES), Node, on_changes=self.apply_changes, cached=True)

    async def run(self) -> None:
        """Follows until cancelled."""
        await self.reflector.run()

    def apply_changes(self, changes: Sequence[ObjectChange[Node]]) -> None:
        """Replaces `current` once for all changes. Most are kubelets' heartbeats, which change no address."""
        address_changes = list(_address_changes(changes))
        if not address_changes:
            return
        node_by_address = dict(self.current)
        for before, after in address_changes:
            for address, node in before.items():
                if node_by_address.get(address) == node:
                    del node_by_address[address]
            node_by_address.update(after)
        self.current = MappingProxyType(node_by_address)


def _address_changes(changes: Sequence[ObjectChange[Node]]) -> Iterator[tuple[_NodeByAddress, _NodeByAddress]]:
    for change in changes:
        before = _addresses(change.old)
        after = _addresses(None if change.kind is ChangeType.DELETED else change.object)
        if before != after:
            yield before, after


def _addresses(node: Node | None) -> dict[str, str]:
    return {one.address: node.metadata.name for one in node.status.addresses if one.type != _HOSTNAME} if node else {}
