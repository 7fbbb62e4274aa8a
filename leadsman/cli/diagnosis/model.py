"""What was seen of a cluster, and what a check says of it."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from extender.api.contract.overview import Overview


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"
    """It could not be looked at; the text says why."""


class Finding(Struct, frozen=True):
    """What one check says. what_to_do: "" where nothing is to be done."""

    check: str
    status: Status
    text: str
    what_to_do: str = ""


class Denied(Struct, frozen=True):
    """A question that the cluster did not answer, and why."""

    reason: str


class ClockReading(Struct, frozen=True):
    """A node's clock against that of the API server: seconds that the node is ahead, to about one second."""

    node: str
    ahead_seconds: float


class ExtenderView(Struct, frozen=True):
    """What one extender pod says of itself: the /overview of its API."""

    pod: str
    overview: Overview | Denied


class ControllerView(Struct, frozen=True):
    """What one controller pod says of itself. leads: None: it is a dry run, which needs no Lease."""

    pod: str
    leads: bool | Denied | None


class Seen(Struct, frozen=True):
    """Everything that `gathering` found; a Denied where the cluster refused to say.

    now: Unix seconds.
    pods: of the namespace, as the API server has them.
    ready_nodes: names of the nodes that are Ready and run Linux.
    sysctl: node → net.ipv4.ping_group_range there, where agents share the node's network.
    rights: what the components need → whether they have it.
    controllers: (): none runs in the namespace.
    """

    now: float
    namespace: str
    server_version: str | Denied
    pods: Sequence[Mapping[str, Any]] | Denied
    ready_nodes: Sequence[str] | Denied
    clocks: Sequence[ClockReading] | Denied
    sysctl: Mapping[str, str | Denied]
    rights: Mapping[str, bool | Denied]
    extenders: Sequence[ExtenderView] | Denied
    controllers: Sequence[ControllerView] = ()
