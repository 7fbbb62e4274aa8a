"""Decides which devices are marked as unhealthy, and which marks are set and removed for that.

A device is marked when it was faulty for `hold_seconds` without a break, and unmarked when it was healthy for
`heal_seconds`. So its mark changes at most twice in the sum of both. Unknown is neither: a device that is not measured
keeps what it has.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from leadsman.decision.policy import DeviceHealthPolicy
from leadsman.planning.device_health.faults import Fault, device_faults, is_throttled, throttled_ratio
from leadsman.planning.device_health.model import (
    DeviceAction,
    DeviceHealthPlan,
    DeviceHistory,
    DeviceMemory,
    MarkNode,
    ObservedDevices,
    RemoveTaint,
    SetTaint,
    TaintEffect,
    TaintRule,
)

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
    """The marks at `now`, and what there is to do for them."""
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
    """What is observed, by device.

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
        """Of a device that is not measured, whether nobody can be given it: its driver publishes it no more, or,
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
    ratio = before.throttled_ratio
    if before.read_at > float("-inf"):
        elapsed = reading.read_at - before.read_at
        ratio = throttled_ratio(ratio, is_throttled(reading.values), elapsed, policy.hold_seconds)
    was_faulty = before.faulty_since is not None or before.marked_since is not None
    faults = tuple(device_faults(reading.values, ratio, policy, was_faulty))
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
    """Which devices are marked, decided one by one within the limits."""

    def __init__(
        self,
        marked: set[str],
        judged: Mapping[str, _Judged],
        policy: DeviceHealthPolicy,
        marked_at: float,
        now: float,
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
            effect = _effect(present.seen.offers_no_effect, device, rules, policy, now)
            rule_of = {rule.target: rule for rule in rules}
            code = device.faults[0].code if device.faults else "unhealthy"
            for target in sorted({*present.seen.published.get(uuid, ()), *rule_of}):
                rule = rule_of.get(target)
                if rule is None or rule.effect != effect:
                    reason = device.text or f"the policy's effect is {effect}"
                    yield SetTaint(target, uuid, device.history.node, effect, code, reason, rule)


def _effect(
    offers_no_effect: bool, device: _Judged, rules: list[TaintRule], policy: DeviceHealthPolicy, now: float
) -> TaintEffect:
    """None first, where the API server takes it, and the policy's after another `hold_seconds` of the fault."""
    final, history = TaintEffect(policy.effect.value), device.history
    if not offers_no_effect or any(rule.effect != TaintEffect.NONE for rule in rules):
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
