"""Plans which devices are marked as faulty, and which marks go, from what their exporters report."""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from leadsman.cluster.devices.node_devices import (
    ROW_REMAP_FAILURE,
    THROTTLE_REASONS,
    UNCORRECTABLE_ERRORS,
    XID,
    DeviceReading,
    DraDevice,
)
from leadsman.decision.policy import DeviceHealthPolicy


class TaintEffect(StrEnum):
    """Says what a device's taint does. NONE keeps no pod off: it shows what the others would do."""

    NONE = "None"
    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


class TaintRule(Struct, frozen=True):
    """Describes a DeviceTaintRule of ours.

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
    """

    readings: Mapping[str, DeviceReading]
    published: Mapping[str, Sequence[DraDevice]]
    rules: Sequence[TaintRule] | None
    node_marks: Mapping[str, frozenset[str]]


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
    """Says what is remembered of a device, in monotonic seconds.

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
    """Remembers of all devices what one plan leaves for the next.

    devices: UUID → its history.
    marked_at: when a device was marked last.
    """

    devices: Mapping[str, DeviceHistory] = {}
    marked_at: float = float("-inf")


class DeviceHealthPlan(Struct, frozen=True):
    """Changes of marks and taints that are to be made now.

    withheld: UUID → why its mark does not change.
    marked: the devices that are to be marked.
    """

    actions: Sequence[DeviceAction]
    withheld: Mapping[str, str]
    marked: frozenset[str]
    memory: DeviceMemory


# What is wrong with a device, by the metrics of dcgm-exporter.
#
# XIDs: docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.

HARMFUL_THROTTLING = 0x08 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, heat by software and by hardware, power brake. Idle clocks and power caps are no fault. nvml.h"""

LEAVE_RATIO = 0.8
"""A throttled device counts as throttled until it is so for less than this share of the threshold."""


class Fault(Struct, frozen=True):
    """A fault of a device, as it is shown.

    code: a value of a label. text: for people.
    """

    code: str
    text: str


def throttled_ratio(before: float, throttled: bool, elapsed_seconds: float, window_seconds: float) -> float:
    """Returns the share of the time, older time counting less: exponentially weighted over `window_seconds`."""
    weight = 1.0 - math.exp(-elapsed_seconds / window_seconds)
    return before + weight * (throttled - before)


def device_faults(
    values: Mapping[str, float], throttled: float, policy: DeviceHealthPolicy, was_faulty: bool
) -> Iterator[Fault]:
    """Returns a device's faults, the gravest first. A metric that is not there is no fault.

    throttled: the share of the time.
    was_faulty: the threshold of throttling is lower for a device that is faulty already.
    """
    xid = int(values.get(XID, 0))
    if xid in policy.xids:
        yield Fault(f"xid-{xid}", f"the driver reports XID {xid}")
    if values.get(ROW_REMAP_FAILURE, 0) > 0:
        yield Fault("row-remap-failure", "a row of its memory could not be remapped")
    errors = values.get(UNCORRECTABLE_ERRORS, 0)
    if errors >= policy.uncorrectable_errors:
        yield Fault("ecc", f"{errors:g} uncorrectable ECC errors since its driver was loaded")
    if throttled >= policy.throttled_ratio * (LEAVE_RATIO if was_faulty else 1.0):
        yield Fault("throttled", f"throttled for {throttled:.0%} of the time by heat or its power supply")


# A device is marked when it was faulty for `hold_seconds` without a break, and unmarked when it was healthy for
# `heal_seconds`. So its mark changes at most twice in the sum of both. Unknown is neither: a device that is not
# measured keeps what it has.

MAX_AGE_SECONDS = 30.0
"""An older reading says nothing: two scrapes of Prometheus, which are 15 s apart by habit."""

REMEMBERED_SECONDS = 3600.0
"""A device that is not measured any more counts for so long among all devices."""

MIN_FRESH_RATIO = 0.5
"""While fewer of the devices are measured, monitoring is at fault, and no mark changes."""

SECONDS_BETWEEN_MARKS = 10.0


def plan_device_health(
    seen: ObservedDevices, policy: DeviceHealthPolicy, memory: DeviceMemory, now: float
) -> DeviceHealthPlan:
    """Returns the marks at `now`, and what there is to do for them."""
    present = _Present(seen, now)
    judged = dict[str, _Judged]()
    for uuid in sorted({*seen.readings, *memory.devices, *present.marked}):
        before = memory.devices.get(uuid, DeviceHistory())
        marked_since = _began(before.marked_since, now) if uuid in present.marked else None
        judged[uuid] = _judge(present, structs.replace(before, marked_since=marked_since), uuid, policy, now)
    marks = _Marks(present.marked, judged, policy, memory.marked_at, now)
    for uuid in judged:
        marks.decide(uuid)
    actions = [*_taint_actions(present, judged, marks, policy, now), *_node_actions(present, judged, marks)]
    devices = {
        uuid: each.history
        for uuid, each in judged.items()
        if uuid in marks.marked or now - each.history.read_at < REMEMBERED_SECONDS
    }
    return DeviceHealthPlan(actions, marks.withheld, frozenset(marks.marked), DeviceMemory(devices, marks.marked_at))


class _Present:
    """Sorts what is observed by device.

    rules: UUID → rules of ours.
    marked_on: UUID → the node that is marked for it.
    targets: what drivers publish.
    measured_nodes: those with a device that is measured now.
    """

    def __init__(self, seen: ObservedDevices, now: float) -> None:
        self.seen = seen
        self.rules: dict[str, list[TaintRule]] = {}
        for rule in seen.rules or ():
            self.rules.setdefault(rule.uuid, []).append(rule)
        self.marked_on = {uuid: node for node, uuids in seen.node_marks.items() for uuid in uuids}
        self.marked = {*self.rules, *self.marked_on}
        self.targets = {target for targets in seen.published.values() for target in targets}
        self.measured_nodes = {each.node for each in seen.readings.values() if now - each.read_at <= MAX_AGE_SECONDS}

    def is_gone(self, uuid: str) -> bool:
        """Tells, of a device that is not measured, whether nobody can be given it: its driver publishes it no more, or,
        without a driver, its node's other devices are measured and it is not."""
        rules = self.rules.get(uuid, ())
        if rules or uuid in self.seen.published:
            return uuid not in self.seen.published and not any(rule.target in self.targets for rule in rules)
        return self.marked_on.get(uuid) in self.measured_nodes


class _Judged(Struct, frozen=True):
    """A device now. faults: None: that is unknown."""

    history: DeviceHistory
    faults: tuple[Fault, ...] | None

    @property
    def text(self) -> str:
        return "; ".join(fault.text for fault in self.faults or ())


def _judge(present: _Present, before: DeviceHistory, uuid: str, policy: DeviceHealthPolicy, now: float) -> _Judged:
    reading = present.seen.readings.get(uuid)
    if reading is None or now - reading.read_at > MAX_AGE_SECONDS:
        healthy_since = _began(before.healthy_since, now) if present.is_gone(uuid) else None
        return _Judged(structs.replace(before, faulty_since=None, healthy_since=healthy_since), None)
    ratio, values = before.throttled_ratio, reading.values_since(now - MAX_AGE_SECONDS)
    if before.read_at > float("-inf"):
        throttled = any(int(values.get(metric, 0)) & HARMFUL_THROTTLING for metric in THROTTLE_REASONS)
        ratio = throttled_ratio(ratio, throttled, reading.read_at - before.read_at, policy.hold_seconds)
    was_faulty = before.faulty_since is not None or before.marked_since is not None
    faults = tuple(device_faults(values, ratio, policy, was_faulty))
    history = DeviceHistory(
        node=reading.node,
        read_at=reading.read_at,
        faulty_since=_began(before.faulty_since, now) if faults else None,
        healthy_since=None if faults else _began(before.healthy_since, now),
        throttled_ratio=ratio,
        marked_since=before.marked_since,
    )
    return _Judged(history, faults)


def _began(before: float | None, now: float) -> float:
    return now if before is None else before


class _Marks:
    """Devices that are marked, decided one by one within the limits."""

    def __init__(
        self, marked: set[str], judged: Mapping[str, _Judged], policy: DeviceHealthPolicy, marked_at: float, now: float
    ) -> None:
        self.marked, self.withheld, self.marked_at = marked, dict[str, str](), marked_at
        self._judged, self._policy, self._now = judged, policy, now
        self._max_marked = max(1, int(policy.max_marked_ratio * len(judged)))
        known = [each for each in judged.values() if now - each.history.read_at < REMEMBERED_SECONDS]
        fresh = [each for each in known if each.faults is not None]
        self._frozen = ""
        if len(fresh) < MIN_FRESH_RATIO * len(known):
            self._frozen = f"only {len(fresh)} of {len(known)} devices are measured now; marks stay as they are"

    def decide(self, uuid: str) -> None:
        """Marks or unmarks the device if it is due; `withheld` says why not."""
        history, policy = self._judged[uuid].history, self._policy
        if uuid in self.marked:
            due = history.healthy_since is not None and self._now - history.healthy_since >= policy.heal_seconds
        else:
            due = history.faulty_since is not None and self._now - history.faulty_since >= policy.hold_seconds
        if not due:
            return
        reason = self._frozen or ("" if uuid in self.marked else self._limit())
        if reason:
            self.withheld[uuid] = reason
        elif uuid in self.marked:
            self.marked.discard(uuid)
        else:
            self.marked.add(uuid)
            self.marked_at = self._now

    def _limit(self) -> str:
        if len(self.marked) >= self._max_marked:
            return (
                f"{len(self.marked)} of {len(self._judged)} devices are marked; at most {self._max_marked} may be: "
                "see whether monitoring is right, or raise devices.health.max_marked_ratio"
            )
        if self._now - self.marked_at < SECONDS_BETWEEN_MARKS:
            return f"another device was marked less than {SECONDS_BETWEEN_MARKS:g} s ago; this one is marked later"
        return ""


def _taint_actions(
    present: _Present, judged: Mapping[str, _Judged], marks: _Marks, policy: DeviceHealthPolicy, now: float
) -> Iterator[DeviceAction]:
    for uuid, device in judged.items():
        rules = present.rules.get(uuid, [])
        if uuid not in marks.marked:
            yield from (RemoveTaint(old, device.history.node, _healed(device, policy)) for old in rules)
        elif present.seen.rules is not None:
            effect = _effect(device, rules, policy, now)
            rule_of = {rule.target: rule for rule in rules}
            code = device.faults[0].code if device.faults else "unhealthy"
            for target in sorted({*present.seen.published.get(uuid, ()), *rule_of}):
                rule = rule_of.get(target)
                if rule is None or rule.effect != effect:
                    reason = device.text or f"the policy's effect is {effect}"
                    yield SetTaint(target, uuid, device.history.node, effect, code, reason, rule)


def _effect(device: _Judged, rules: list[TaintRule], policy: DeviceHealthPolicy, now: float) -> TaintEffect:
    """Returns the taint's effect: None first, and the policy's after another `hold_seconds` of the fault."""
    final, history = TaintEffect(policy.effect.value), device.history
    if any(rule.effect != TaintEffect.NONE for rule in rules):
        return final
    held = history.marked_since is not None and now - history.marked_since >= policy.hold_seconds
    return final if rules and held and device.faults else TaintEffect.NONE


def _node_actions(present: _Present, judged: Mapping[str, _Judged], marks: _Marks) -> Iterator[DeviceAction]:
    """The mark on a node is for devices that no rule can taint."""
    seen = present.seen
    taintable = {*present.rules, *seen.published} if seen.rules is not None else set[str]()
    nodes: dict[str, set[str]] = {node: set() for node in present.marked_on.values()}
    for uuid in marks.marked - taintable:
        node = present.marked_on.get(uuid) or judged[uuid].history.node
        if node in seen.node_marks:
            nodes.setdefault(node, set()).add(uuid)
    for node, uuids in sorted(nodes.items()):
        if uuids != seen.node_marks[node]:
            changed = sorted(uuids ^ seen.node_marks[node])
            texts = (f"{uuid}: {judged[uuid].text or 'no fault that this label is for'}" for uuid in changed)
            yield MarkNode(node, frozenset(uuids), "; ".join(texts))


def _healed(device: _Judged, policy: DeviceHealthPolicy) -> str:
    if device.faults is None:
        return f"neither measured nor published for {policy.heal_seconds:g} s"
    return f"healthy for {policy.heal_seconds:g} s"
