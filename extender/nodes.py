"""What the API server says of nodes: their role and their addresses."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from apiserver.changes import Change, Kind
from apiserver.listing import Wanted
from apiserver.objects import Node
from apiserver.requests import Client
from apiserver.resources import NODES
from apiserver.watching import Reflector

ROLE_LABEL = "kubernetes.io/role"

_HOSTNAME = "Hostname"
"""An address that is a name, and not always the node's own."""

_Table = Mapping[str, str]


class KubeNodes:
    """`run` it as one task; current and addresses are replaced and never altered. While the API server is away they
    stay as they are.

    current: node → its label kubernetes.io/role, of those that have it. addresses: IP → node.
    """

    def __init__(self, client: Client) -> None:
        self.current: _Table = MappingProxyType({})
        self.addresses: _Table = MappingProxyType({})
        self.reflector = Reflector(client, Wanted(NODES), Node, on_changes=self.take, cached=True)

    async def run(self) -> None:
        await self.reflector.run()

    def take(self, changes: Sequence[Change[Node]]) -> None:
        """Most changes are kubelets' heartbeats, which change neither table."""
        nodes = [(change.old, None if change.kind is Kind.DELETED else change.object) for change in changes]
        self.current = _moved(self.current, [(_roles(old), _roles(new)) for old, new in nodes])
        self.addresses = _moved(self.addresses, [(_addresses(old), _addresses(new)) for old, new in nodes])


def _roles(node: Node | None) -> dict[str, str]:
    role = node.metadata.labels.get(ROLE_LABEL) if node else None
    return {node.metadata.name: role} if node and role else {}


def _addresses(node: Node | None) -> dict[str, str]:
    return {one.address: node.metadata.name for one in node.status.addresses if one.type != _HOSTNAME} if node else {}


def _moved(table: _Table, moves: Sequence[tuple[_Table, _Table]]) -> _Table:
    """Copied once for all moves. What was another node's by now stays."""
    moves = [(before, after) for before, after in moves if before != after]
    if not moves:
        return table
    found = dict(table)
    for before, after in moves:
        for key, value in before.items():
            if found.get(key) == value:
                del found[key]
        found.update(after)
    return MappingProxyType(found)
