"""What decisions know of devices besides the agents' reports."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.cluster.devices.claims import ClaimRequests
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices


class Reservation(Struct, frozen=True):
    """What is held for a pod from the answer to kube-scheduler until it is seen bound, on whichever node it goes to.

    nodes: those that were kept for it; None: any.
    """

    uid: str
    demand: DeviceDemand
    nodes: frozenset[str] | None = None

    def may_be_on(self, node: str) -> bool:
        return self.nodes is None or node in self.nodes


class AskedDevices(Struct, frozen=True, omit_defaults=True):
    """What is asked of the devices that DRA drivers publish. Replaced, never altered.

    claims: namespace/name → what a ResourceClaim asks that was given nothing yet. templates: of ResourceClaimTemplates.
    extended: extended resource → the selection of a DeviceClass that it stands for.
    problems: selection → why its devices are not counted.
    """

    claims: Mapping[str, ClaimRequests] = {}
    templates: Mapping[str, ClaimRequests] = {}
    extended: Mapping[str, str] = {}
    problems: Mapping[str, str] = {}


NOTHING_ASKED = AskedDevices()


class DeviceInputs(Struct, frozen=True):
    """The devices of the cluster, and what is reserved of them.

    followed: whether devices are followed at all; if not, nothing is decided on them.
    nodes: node → its devices; replaced, never altered. A node that is absent has none.
    reservations: for other pods, made before this one was asked about, by any replica.
    reservations_problem: why they are not known; "" when they are.
    asked: by claims.
    """

    followed: bool = False
    nodes: Mapping[str, NodeDevices] = MappingProxyType({})
    reservations: tuple[Reservation, ...] = ()
    reservations_problem: str = ""
    asked: AskedDevices = NOTHING_ASKED
