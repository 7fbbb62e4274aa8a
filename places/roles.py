"""What nodes are for, from their label kubernetes.io/role: the API server's nodes that have one, listed and watched."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from apiserver.changes import Change, Kind
from apiserver.listing import Wanted
from apiserver.objects import Bare
from apiserver.requests import Client
from apiserver.resources import NODES
from apiserver.watching import Reflector

LABEL = "kubernetes.io/role"

LONGEST_PAUSE_SECONDS = 4.0
"""Between attempts, as for places."""


class ApiRoles:
    """node → role. `run` it as one task; readers take `current`, which stays while the API server is away.

    clock: monotonic seconds, for the reflector's age.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self.current: Mapping[str, str] = MappingProxyType({})
        wanted = Wanted(NODES, labels=LABEL, metadata_only=True)
        self.nodes = Reflector(
            client,
            wanted,
            Bare,
            on_changes=self._changed,
            longest_pause_seconds=LONGEST_PAUSE_SECONDS,
            clock=clock,
        )

    async def run(self) -> None:
        """For ever."""
        await self.nodes.run()

    def _changed(self, changes: Sequence[Change[Bare]]) -> None:
        """A new mapping only when a role is another: kubelets touch their nodes all the time."""
        if any(change.kind is not Kind.MODIFIED or _role(change.object) != _role(change.old) for change in changes):
            self.current = MappingProxyType({name: _role(node) for (_, name), node in self.nodes.current.items()})


def _role(node: Bare | None) -> str:
    return node.metadata.labels.get(LABEL, "") if node else ""
