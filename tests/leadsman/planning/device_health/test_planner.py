"""Devices are marked when they are sick for long enough, within limits, and unmarked when they healed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from leadsman.cluster.devices import node_devices
from leadsman.decision.policy import DeviceHealthPolicy
from leadsman.planning import device_health_plan

POLICY = DeviceHealthPolicy(hold_seconds=60.0, heal_seconds=600.0)
CARDS = [f"GPU-{number:02}" for number in range(40)]
SICK = {node_devices.ROW_REMAP_FAILURE: 1.0}
HEALTHY = dict.fromkeys(node_devices.METRICS, 0.0)


class Cluster:
    """40 devices on four nodes. What a plan says is done at once, so that the next plan sees it."""

    def __init__(self, *, rules: bool = True) -> None:
        published = {uuid: (target(uuid),) for uuid in CARDS}
        nodes = {f"n{number}": frozenset[str]() for number in range(4)}
        self.seen = device_health_plan.ObservedDevices({}, published, [] if rules else None, nodes)
        self.policy, self.memory, self.now = POLICY, device_health_plan.DeviceMemory(), 0.0
        self.plan: device_health_plan.DeviceHealthPlan | None = None

    def go_on(
        self, seconds: float, values: Mapping[str, Mapping[str, float]], silent: Sequence[str] = ()
    ) -> list[device_health_plan.DeviceAction]:
        """Plans every 5 s, with these values of devices, none of others; what was done meanwhile."""
        done: list[device_health_plan.DeviceAction] = []
        for _ in range(int(seconds / 5.0)):
            self.now += 5.0
            readings = {
                uuid: node_devices.DeviceReading(node(uuid), values.get(uuid, HEALTHY), self.now).with_missing(
                    self.seen.readings.get(uuid)
                )
                for uuid in CARDS
                if uuid not in silent
            }
            self.seen = structs.replace(self.seen, readings={**self.seen.readings, **readings})
            self.plan = device_health_plan.plan_device_health(self.seen, self.policy, self.memory, self.now)
            self.memory = self.plan.memory
            for action in self.plan.actions:
                self._do(action)
                done.append(action)
        return done

    def _do(self, action: device_health_plan.DeviceAction) -> None:
        if isinstance(action, device_health_plan.MarkNode):
            marks = {**self.seen.node_marks, action.node: action.uuids}
            self.seen = structs.replace(self.seen, node_marks=marks)
            return
        rules = {rule.target: rule for rule in self.seen.rules or ()}
        if isinstance(action, device_health_plan.SetTaint):
            rules[action.target] = device_health_plan.TaintRule(
                "r", "uid", "1", action.uuid, action.target, action.effect
            )
        else:
            del rules[action.rule.target]
        self.seen = structs.replace(self.seen, rules=list(rules.values()))


def target(uuid: str) -> node_devices.DraDevice:
    return node_devices.DraDevice("gpu.example.com", node(uuid), f"gpu-{int(uuid[4:]) % 10}")


def node(uuid: str) -> str:
    return f"n{int(uuid[4:]) // 10}"


def effects(actions: Sequence[device_health_plan.DeviceAction]) -> list[tuple[str, str]]:
    return [(each.uuid, each.effect) for each in actions if isinstance(each, device_health_plan.SetTaint)]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({node_devices.XID: 79.0}, "xid-79"),
        ({node_devices.XID: 31.0}, ""),  # a program's page fault
        ({node_devices.ROW_REMAP_FAILURE: 1.0}, "row-remap-failure"),
        ({node_devices.UNCORRECTABLE_ERRORS: 1.0}, "ecc"),
        ({node_devices.THROTTLE_REASONS[0]: 64.0}, "throttled"),
        ({node_devices.THROTTLE_REASONS[1]: 8.0}, "throttled"),
        ({node_devices.THROTTLE_REASONS[0]: 5.0}, ""),  # idle, and the power cap that the operator set
        ({}, ""),
    ],
)
def test_what_is_a_fault(values: Mapping[str, float], code: str) -> None:
    actions = Cluster().go_on(300.0, {"GPU-07": values})
    assert {each.code for each in actions if isinstance(each, device_health_plan.SetTaint)} == (
        {code} if code else set()
    )


def test_a_fault_is_held_then_tainted_without_effect_then_with_the_policy_s() -> None:
    cluster = Cluster()
    assert cluster.go_on(60.0, {"GPU-07": SICK}) == []
    assert effects(cluster.go_on(5.0, {"GPU-07": SICK})) == [("GPU-07", device_health_plan.TaintEffect.NONE)]
    assert effects(cluster.go_on(120.0, {"GPU-07": SICK})) == [("GPU-07", device_health_plan.TaintEffect.NO_SCHEDULE)]


def test_a_metric_that_is_missing_breaks_no_hold_and_is_no_fault_once_it_is_too_old() -> None:
    cluster = Cluster()
    for values in [SICK, {}] * 6:
        assert cluster.go_on(5.0, {"GPU-07": values}) == []
    assert effects(cluster.go_on(5.0, {"GPU-07": {}})) == [("GPU-07", device_health_plan.TaintEffect.NONE)]
    [removed] = cluster.go_on(device_health_plan.MAX_AGE_SECONDS + 600.0, {"GPU-07": {}})
    assert isinstance(removed, device_health_plan.RemoveTaint)


def test_a_mark_is_removed_when_the_device_was_healthy_without_a_break() -> None:
    cluster = Cluster()
    cluster.go_on(130.0, {"GPU-07": SICK})
    assert cluster.go_on(595.0, {}) == []
    assert cluster.go_on(5.0, {"GPU-07": SICK}) == []
    assert cluster.go_on(600.0, {}) == []
    [removed] = cluster.go_on(5.0, {})
    assert isinstance(removed, device_health_plan.RemoveTaint)
    assert (removed.rule.uuid, removed.reason) == ("GPU-07", "healthy for 600 s")


def test_at_most_a_tenth_of_the_devices_is_marked_and_one_after_the_other() -> None:
    cluster, sick = Cluster(), dict.fromkeys(CARDS, SICK)
    assert len(effects(cluster.go_on(65.0, sick))) == 1
    cluster.go_on(300.0, sick)
    assert cluster.plan is not None
    assert len(cluster.plan.marked) == 4
    assert set(cluster.plan.withheld) == set(CARDS) - cluster.plan.marked
    assert "4 of 40 devices are marked; at most 4 may be" in next(iter(cluster.plan.withheld.values()))


def test_while_half_of_the_devices_are_not_measured_no_mark_changes() -> None:
    cluster = Cluster()
    cluster.go_on(130.0, {"GPU-07": SICK})
    cluster.go_on(device_health_plan.MAX_AGE_SECONDS, {"GPU-01": SICK}, silent=CARDS[10:])
    assert cluster.go_on(900.0, {"GPU-01": SICK}, silent=CARDS[10:]) == []
    assert cluster.plan is not None
    assert cluster.plan.withheld["GPU-01"].startswith("only 10 of 40 devices are measured now")


def test_without_rules_the_node_is_marked_and_the_mark_moves_to_a_rule_when_there_are_some() -> None:
    cluster = Cluster(rules=False)
    assert cluster.go_on(130.0, {"GPU-07": SICK}) == [
        device_health_plan.MarkNode("n0", frozenset({"GPU-07"}), "GPU-07: a row of its memory could not be remapped")
    ]
    cluster.seen = structs.replace(cluster.seen, rules=[])
    tainted, unmarked = cluster.go_on(5.0, {"GPU-07": SICK})
    assert effects([tainted]) == [("GPU-07", device_health_plan.TaintEffect.NONE)]
    assert isinstance(unmarked, device_health_plan.MarkNode)
    assert unmarked.uuids == frozenset()


@pytest.mark.parametrize("parts", [("", "p", "d"), ("d", "", "d"), ("d", "p", "")])
def test_no_device_is_named_in_part(parts: tuple[str, str, str]) -> None:
    """What a selector leaves out matches everything."""
    with pytest.raises(ValueError, match="must not be empty"):
        node_devices.DraDevice(*parts)


# Names and codes of faults are NVIDIA's, so they are held against dcgm-exporter's own list and NVIDIA's catalogue.

DATA = Path(__file__).parents[3] / "data" / "nvidia"
FAULTS_OF_THE_DEVICE = (
    *("RESET_GPU", "RESTART_BM", "RESTART_VM"),
    *("CHECK_MECHANICALS", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR"),
)


def actions() -> dict[str, set[int]]:
    lines = [line for line in (DATA / "xid-actions.txt").read_text().splitlines() if not line.startswith("#")]
    return {action: set(map(int, xids.split())) for action, _, xids in (line.partition(":") for line in lines)}


def test_the_metrics_are_counters_that_dcgm_exporter_has() -> None:
    lines = (DATA / "default-counters.csv").read_text().splitlines()
    names = {line.removeprefix("# ").partition(",")[0].strip() for line in lines}
    assert set(node_devices.METRICS) - set(node_devices.THROTTLE_REASONS) <= names


def test_the_default_xids_are_those_that_nvidia_wants_a_reset_a_reboot_or_a_repair_for() -> None:
    asked = actions()
    of_the_device = set[int]().union(*(asked[each] for each in FAULTS_OF_THE_DEVICE))
    assert set(DeviceHealthPolicy().xids) == of_the_device - asked["APPLICATION"]
