"""Which node an address is, from the API server: for a source of delays that knows addresses only."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES

_HOSTNAME = "Hostname"
"""An address that is a name, and not always the node's own."""

_NodeByAddress = Mapping[str, str]


class NodeAddressFollower:
    """IP → node. `run` it as one task; `current` is replaced, never altered, and stays while the API server is away."""

    def __init__(self, client: ApiClient) -> None:
        self.current: _NodeByAddress = MappingProxyType({})
        self.reflector = Reflector(client, ListOptions(NODES), Node, on_changes=self.apply_changes, cached=True)

    async def run(self) -> None:
        """For ever."""
        await self.reflector.run()

    def apply_changes(self, changes: Sequence[ObjectChange[Node]]) -> None:
        """Copied once for all changes. Most are kubelets' heartbeats, which move no address."""
        moves = list(_address_changes(changes))
        if not moves:
            return
        found = dict(self.current)
        for before, after in moves:
            for address, node in before.items():
                if found.get(address) == node:
                    del found[address]
            found.update(after)
        self.current = MappingProxyType(found)


def _address_changes(changes: Sequence[ObjectChange[Node]]) -> Iterator[tuple[_NodeByAddress, _NodeByAddress]]:
    for change in changes:
        before = _addresses(change.old)
        after = _addresses(None if change.kind is ChangeType.DELETED else change.object)
        if before != after:
            yield before, after


def _addresses(node: Node | None) -> dict[str, str]:
    return {one.address: node.metadata.name for one in node.status.addresses if one.type != _HOSTNAME} if node else {}
