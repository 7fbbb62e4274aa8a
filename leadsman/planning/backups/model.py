"""What a backup plan says: for each bounded pod its backup node, or why it has none; for each node what is reserved."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from leadsman.cluster.resources import Resources


class BackupScope(StrEnum):
    """The largest failure that a pod is to survive."""

    NONE = "none"
    NODE = "node"
    RACK = "rack"
    ZONE = "zone"


class FailureDomain(NamedTuple):
    """What fails at once: the node, rack or zone of that name. A rack's name is `<zone>/<rack>`."""

    scope: BackupScope
    name: str

    def __str__(self) -> str:
        return f"{self.scope} {self.name}"


class BackupSettings(Struct, frozen=True):
    """What an operator chooses.

    default_scope: of pods that do not say one themselves.
    rack_label: the label of nodes that names their rack; a node without it has the rack that its agent reports.
    max_improvements: most backups that one plan moves to save room; more make placeholders churn.
    """

    default_scope: BackupScope = BackupScope.NODE
    rack_label: str = "topology.kubernetes.io/rack"
    max_improvements: int = 8


class Backup(Struct, frozen=True):
    """A pod is covered: `node` takes it when any of `domains` fails."""

    node: str
    domains: tuple[FailureDomain, ...]


class Uncovered(Struct, frozen=True):
    """A pod has no backup. reason: why, in words for an Event."""

    reason: str


Backups = Mapping[str, Backup]
"""UID → backup, of the pods that are covered."""


class BackupPlan(Struct, frozen=True):
    """The backups of all bounded pods.

    pods: UID → backup, or why there is none. A pod that asked for none is not in it.
    reserves: node → what it keeps free of ordinary pods, without nodes that reserve nothing.
    """

    pods: Mapping[str, Backup | Uncovered] = MappingProxyType({})
    reserves: Mapping[str, Resources] = MappingProxyType({})

    @property
    def backups(self) -> Backups:
        """Of the covered pods."""
        return {uid: each for uid, each in self.pods.items() if isinstance(each, Backup)}

    @property
    def uncovered(self) -> Iterator[tuple[str, str]]:
        """UID and reason of each pod that has no backup."""
        return ((uid, each.reason) for uid, each in self.pods.items() if isinstance(each, Uncovered))
