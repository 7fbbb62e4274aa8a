"""Follows the nodes that have the label kubernetes.io/role, which says what a node is for."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import ROLE_LABEL
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES

MAX_BACKOFF_SECONDS = 4.0
"""Between attempts, as for workloads."""


class _Labels(Struct, frozen=True, gc=False):
    role: str = field(default="", name=ROLE_LABEL)


class _Metadata(ObjectIdentity, frozen=True, rename="camel"):
    labels: _Labels = _Labels()


class _Node(Struct, frozen=True, gc=False):
    """A node's metadata, and of its labels only the role."""

    metadata: _Metadata


class NodeRoleFollower:
    """Follows the nodes' roles. `run` it as one task.

    current: node → role; replaced, never altered, and kept while the API server is away.
    clock: monotonic seconds, for the reflector's age.
    """

    def __init__(self, client: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.current: Mapping[str, str] = MappingProxyType({})
        self.reflector = Reflector(
            client,
            ListOptions(NODES, label_selector=ROLE_LABEL, metadata_only=True),
            _Node,
            on_changes=self._changed,
            longest_pause_seconds=MAX_BACKOFF_SECONDS,
            clock=clock,
        )

    async def run(self) -> None:
        """Follows until cancelled."""
        await self.reflector.run()

    def _changed(self, changes: Sequence[ObjectChange[_Node]]) -> None:
        """Replaces `current` only when a role has changed: kubelets update their nodes all the time."""
        if any(
            change.kind is not ChangeType.MODIFIED or _role(change.object) != _role(change.old) for change in changes
        ):
            self.current = MappingProxyType({name: _role(node) for (_, name), node in self.reflector.current.items()})


def _role(node: _Node | None) -> str:
    return node.metadata.labels.role if node else ""
