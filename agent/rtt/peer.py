"""Peers, the class of the path to each by zone and rack, and what may become of a probe. Pure."""

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct


class Locality(Struct, frozen=True):
    """A node's zone and rack; "" when unknown."""

    zone: str = ""
    rack: str = ""


class Peer(Struct, frozen=True):
    """A node to probe. name: its node name. address: IPv4, IPv6 or a host name."""

    name: str
    address: str
    zone: str = ""
    rack: str = ""

    @property
    def locality(self) -> Locality:
        return Locality(self.zone, self.rack)


class PathClass(StrEnum):
    """The label `class` of the RTT histogram."""

    SAME_RACK = "same_rack"
    SAME_ZONE = "same_zone"
    CROSS_ZONE = "cross_zone"
    UNKNOWN = "unknown"


def path_class(here: Locality, there: Locality) -> PathClass:
    """The class of the path between two nodes. Racks count within a zone only: two zones may each have a rack "1"."""
    if not here.zone or not there.zone:
        return PathClass.UNKNOWN
    if here.zone != there.zone:
        return PathClass.CROSS_ZONE
    return PathClass.SAME_RACK if here.rack and here.rack == there.rack else PathClass.SAME_ZONE


# What became of a probe that left this host.


class Answered(NamedTuple):
    rtt_seconds: float


class Lost(NamedTuple):
    """No answer within the timeout."""


class Unusable(NamedTuple):
    """Answered in time, but the wall clock was set meanwhile: neither a latency nor a loss."""


ProbeResult = Answered | Lost | Unusable
