"""Follows the labels of all nodes, from the moment on at which the policy names a plugin, which is shown them."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from leadsman.decision.inputs import NodeLabels
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES

MAX_BACKOFF_SECONDS = 4.0
"""Between attempts, as for workloads."""

POLL_SECONDS = 1.0
"""Between two looks at the policy, until it names a plugin."""

_NO_LABELS = BoundedLabels()


class _Metadata(ObjectIdentity, frozen=True, rename="camel"):
    labels: BoundedLabels = _NO_LABELS


class _Node(Struct, frozen=True, gc=False):
    metadata: _Metadata


class NodeLabelFollower:
    """Follows the nodes' labels. `run` it as one task.

    current: None until they are listed; replaced, never altered, and kept while the API server is away. A node with
    more than 16 KiB of labels has none here, so that what is missing is unknown.
    is_needed: whether the policy names a plugin now.
    """

    def __init__(self, client: ApiClient, is_needed: Callable[[], bool]) -> None:
        self.current: NodeLabels | None = None
        self.is_needed = is_needed
        self.reflector = Reflector(
            client,
            ListOptions(NODES, metadata_only=True),
            _Node,
            on_changes=self._changed,
            longest_pause_seconds=MAX_BACKOFF_SECONDS,
        )

    async def run(self) -> None:
        """Follows until cancelled. Goes on when no plugin is named any more: the next policy may."""
        while not self.is_needed():  # noqa: ASYNC110 -- the policy file is polled too, and has no event
            await asyncio.sleep(POLL_SECONDS)
        await self.reflector.run()

    def _changed(self, changes: Sequence[ObjectChange[_Node]]) -> None:
        """Replaces `current` only when a label has changed: kubelets update their nodes all the time."""
        if self.current is not None and all(
            change.kind is ChangeType.MODIFIED and _labels(change.object) == _labels(change.old) for change in changes
        ):
            return
        nodes = self.reflector.current.items()
        self.current = NodeLabels(
            {name: node.metadata.labels for (_, name), node in nodes if not node.metadata.labels.cut}
        )


def _labels(node: _Node | None) -> BoundedLabels:
    return node.metadata.labels if node else _NO_LABELS
