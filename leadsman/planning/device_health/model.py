"""The terms of device health: devices, readings, marks and the actions that set and remove them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.devices.monitored import DeviceReading, DraDevice


class TaintEffect(StrEnum):
    """Of a device's taint. NONE keeps no pod off: it shows what the others would do."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class TaintRule(Struct, frozen=True):
    """A DeviceTaintRule of ours.

    uuid: of the device.
    uid, resource_version: of the rule.
    effect: "" when it is one that we do not know.
    """

    name: str
    uid: str
    resource_version: str
    uuid: str
    target: DraDevice
    effect: TaintEffect | str


class ObservedDevices(Struct, frozen=True):
    """The devices and their marks.

    readings: UUID → what was read last.
    published: UUID → the devices of ResourceSlices that are it or a part of it.
    rules: those of ours; None: the API server has no DeviceTaintRules.
    node_marks: node → UUIDs of its devices that are marked on it; every node of the cluster.
    offers_no_effect: whether the API server takes the effect None.
    """

    readings: Mapping[str, DeviceReading]
    published: Mapping[str, Sequence[DraDevice]]
    rules: Sequence[TaintRule] | None
    node_marks: Mapping[str, frozenset[str]]
    offers_no_effect: bool = True


class SetTaint(Struct, frozen=True):
    """Taint a device of a DRA driver, or change the taint's effect.

    node: that it is in; "" when nobody says.
    code: of the fault, as the taint's value.
    rule: the one to change; None: make one.
    """

    target: DraDevice
    uuid: str
    node: str
    effect: TaintEffect
    code: str
    reason: str
    rule: TaintRule | None = None


class RemoveTaint(Struct, frozen=True):
    """Delete a rule of ours."""

    rule: TaintRule
    node: str
    reason: str


class MarkNode(Struct, frozen=True):
    """Have the node's label and annotation name these devices, and no others. uuids: empty: remove both."""

    node: str
    uuids: frozenset[str]
    reason: str


DeviceAction = SetTaint | RemoveTaint | MarkNode


class DeviceHistory(Struct, frozen=True):
    """What is remembered of a device, in monotonic seconds.

    faulty_since, healthy_since: it was so at each reading since; None: it is not.
    throttled_ratio: share of the time that it is throttled, lately.
    marked_since: when its mark was first seen; None: it has none.
    """

    node: str = ""
    read_at: float = float("-inf")
    faulty_since: float | None = None
    healthy_since: float | None = None
    throttled_ratio: float = 0.0
    marked_since: float | None = None


class DeviceMemory(Struct, frozen=True):
    """What one plan leaves for the next.

    devices: UUID → its history.
    marked_at: when a device was marked last.
    """

    devices: Mapping[str, DeviceHistory] = {}
    marked_at: float = float("-inf")


class DeviceHealthPlan(Struct, frozen=True):
    """What is to be done now.

    withheld: UUID → why its mark does not change.
    marked: the devices that are to be marked.
    """

    actions: Sequence[DeviceAction]
    withheld: Mapping[str, str]
    marked: frozenset[str]
    memory: DeviceMemory
