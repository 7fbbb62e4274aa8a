"""Follows one fact of each node on the API server: its role, its labels, or its addresses."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from leadsman.decision.inputs import NodeLabels
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.names import ROLE_LABEL
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import Node, ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES

MAX_BACKOFF_SECONDS = 4.0
"""Between attempts, as for workloads."""

POLL_SECONDS = 1.0
"""Between two looks at the policy, until it names a plugin."""

_HOSTNAME = "Hostname"
"""The type of an address that is a name, and not always the node's own."""


class _LabelledMetadata(ObjectIdentity, frozen=True, rename="camel"):
    labels: BoundedLabels = BoundedLabels()


class _LabelledNode(Struct, frozen=True, gc=False):
    """A node's identity and labels: of 5,000 nodes their annotations would be 10 MB."""

    metadata: _LabelledMetadata


class NodeRoleFollower:
    """Follows which nodes there are, and their label kubernetes.io/role. `run` it as one task.

    current: node → role, "" without one; empty until they were listed. Replaced, never altered, and kept while the API
        server is away.
    clock: monotonic seconds, for the reflector's age.
    """

    def __init__(self, client: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self.current: Mapping[str, str] = MappingProxyType({})
        options = ListOptions(NODES, metadata_only=True)
        self.reflector = Reflector(
            client,
            options,
            _LabelledNode,
            on_changes=self._changed,
            longest_pause_seconds=MAX_BACKOFF_SECONDS,
            clock=clock,
        )

    def _changed(self, changes: Sequence[ObjectChange[_LabelledNode]]) -> None:
        """Replaces `current` only when a role has changed: kubelets update their nodes all the time."""
        if any(each.kind is not ChangeType.MODIFIED or _role(each.object) != _role(each.old) for each in changes):
            self.current = MappingProxyType({name: _role(node) for (_, name), node in self.reflector.current.items()})


def _role(node: _LabelledNode | None) -> str:
    return node.metadata.labels.get(ROLE_LABEL, "") if node else ""


class NodeLabelFollower:
    """Follows the labels of all nodes once the policy names a plugin, which is shown them. `run` it as one task.

    current: None until they are listed; replaced, never altered, and kept while the API server is away. A node with
    more than 16 KiB of labels has none here, so that what is missing is unknown.
    is_needed: whether the policy names a plugin now.
    """

    def __init__(self, client: ApiClient, is_needed: Callable[[], bool]) -> None:
        self.current: NodeLabels | None = None
        self.is_needed = is_needed
        options = ListOptions(NODES, metadata_only=True)
        self.reflector = Reflector(
            client, options, _LabelledNode, on_changes=self._changed, longest_pause_seconds=MAX_BACKOFF_SECONDS
        )

    async def run(self) -> None:
        """Follows until cancelled. Goes on when no plugin is named any more: the next policy may."""
        while not self.is_needed():  # noqa: ASYNC110 -- the policy file is polled too, and has no event
            await asyncio.sleep(POLL_SECONDS)
        await self.reflector.run()

    def _changed(self, changes: Sequence[ObjectChange[_LabelledNode]]) -> None:
        if self.current is not None and all(
            each.kind is ChangeType.MODIFIED and each.old and each.object.metadata.labels == each.old.metadata.labels
            for each in changes
        ):
            return
        nodes = self.reflector.current.items()
        self.current = NodeLabels(
            {name: node.metadata.labels for (_, name), node in nodes if not node.metadata.labels.cut}
        )


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
