"""`leadsman controller`'s flags."""

from pathlib import Path

import pytest

from controller.parts import ControllerParts
from controller.settings import ControllerSettings, DeviceHealthMode
from leadsman.cli import controller, main
from leadsman.planning.failover.node_verdict import DetectionRules
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.sources.delay.delay_sources import DelaySettings

API = ("--kube-api", "http://127.0.0.1:1")


def parsed(*arguments, **environ):
    return controller.settings(main.build_parser(environ, "controller").parse_args(["controller", *API, *arguments]))


def test_its_defaults_are_those_of_the_parts() -> None:
    found = parsed()
    assert found.limits == LabelLimits()
    assert found.patches_per_second == ControllerSettings(found.etcd, found.telemetry, "x").patches_per_second
    assert found.telemetry.sources == ("agents",)
    assert not found.dry_run


def test_the_lease_stands_in_the_pod_s_namespace() -> None:
    assert parsed(POD_NAMESPACE="here").lease == ("here", "leadsman-controller")


def test_each_process_has_a_name_of_its_own() -> None:
    assert parsed().identity != parsed().identity


def test_limits_are_flags() -> None:
    found = parsed("--max-marked-ratio", "0.5", "--max-flips-per-hour", "3", "--adopt").limits
    assert found == LabelLimits(max_marked_ratio=0.5, max_flips_per_hour=3, adopt=True)


def test_metrics_may_come_from_elsewhere() -> None:
    assert parsed("--telemetry", "custom-metrics,agents").telemetry.sources == ("custom-metrics", "agents")


def test_without_an_api_server_it_says_how_to_name_one() -> None:
    with pytest.raises(ValueError, match="name the API server with --kube-api"):
        controller.settings(main.build_parser({}, "controller").parse_args(["controller"]))


def test_delays_and_policy_are_given_as_to_the_extender(tmp_path: Path) -> None:
    for name in ("matrix", "metadata", "policy"):
        (tmp_path / name).touch()
    files = [f"--delay-matrix={tmp_path}/matrix", f"--delay-metadata={tmp_path}/metadata"]
    found = parsed(*files, f"--policy={tmp_path}/policy", "--no-estimates")
    assert found.delays == DelaySettings(matrix=tmp_path / "matrix", metadata=tmp_path / "metadata", estimates=False)
    assert found.policy == tmp_path / "policy"
    assert parsed().delays == DelaySettings()


def test_nodes_are_judged_only_when_asked_for() -> None:
    assert parsed().node_health is None
    found = parsed("--agent-call-timeout-seconds", "2", LEADSMAN_NODE_HEALTH="report").node_health
    assert found == DetectionRules(call_timeout_seconds=2.0)


def test_pods_are_moved_only_when_asked_for_and_only_with_backups() -> None:
    asked = ("--node-health", "report", "--backups")
    assert parsed(*asked).self_healing.replacement is None
    replacing = parsed(*asked, "--replacement", "--replacement-hold-seconds", "5", "--replacements-per-minute", "7")
    assert replacing.self_healing.replacement == ReplacementSettings(hold_seconds=5.0, per_minute=7)
    with pytest.raises(ValueError, match="--replacement needs --backups"):
        parsed("--replacement")


def test_devices_are_judged_only_when_asked_for_and_only_with_prometheus() -> None:
    assert parsed().device_health is DeviceHealthMode.OFF
    found = parsed("--device-health", "dry-run", "--telemetry", "agents,prometheus=http://prometheus:9090")
    assert found.device_health is DeviceHealthMode.DRY_RUN
    with pytest.raises(ValueError, match="write --telemetry prometheus=http://HOST:PORT"):
        ControllerParts(parsed("--device-health", "act"))
