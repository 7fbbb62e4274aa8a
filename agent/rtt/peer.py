"""Who is probed, and how far away it should be."""

from enum import StrEnum

from msgspec import Struct


class Locality(Struct, frozen=True):
    """Where a node stands. "": not known."""

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
    """Racks are compared within a zone only, since two zones may each have a rack "1"."""
    if not here.zone or not there.zone:
        return PathClass.UNKNOWN
    if here.zone != there.zone:
        return PathClass.CROSS_ZONE
    return PathClass.SAME_RACK if here.rack and here.rack == there.rack else PathClass.SAME_ZONE
