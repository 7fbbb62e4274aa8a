"""Names and codes of faults are NVIDIA's, so they are held against dcgm-exporter's own list and NVIDIA's catalogue."""

from pathlib import Path

from leadsman.cluster.devices.monitored import METRICS, THROTTLE_REASONS
from leadsman.decision.policy import DeviceHealthPolicy

DATA = Path(__file__).parents[3] / "data" / "nvidia"
FAULTS_OF_THE_DEVICE = {
    "RESET_GPU",
    "RESTART_BM",
    "RESTART_VM",
    "CHECK_MECHANICALS",
    "WORKFLOW_XID_48",
    "WORKFLOW_NVLINK_ERR",
}


def actions() -> dict[str, set[int]]:
    lines = [line for line in (DATA / "xid-actions.txt").read_text().splitlines() if not line.startswith("#")]
    return {action: set(map(int, xids.split())) for action, _, xids in (line.partition(":") for line in lines)}


def test_the_metrics_are_counters_that_dcgm_exporter_has() -> None:
    lines = (DATA / "default-counters.csv").read_text().splitlines()
    names = {line.removeprefix("# ").partition(",")[0].strip() for line in lines}
    assert set(METRICS) - set(THROTTLE_REASONS) <= names


def test_the_default_xids_are_those_that_nvidia_wants_a_reset_a_reboot_or_a_repair_for() -> None:
    asked = actions()
    of_the_device = set[int]().union(*(asked[each] for each in FAULTS_OF_THE_DEVICE))
    assert set(DeviceHealthPolicy().xids) == of_the_device - asked["APPLICATION"]
