"""`leadsman controller`'s flags."""

import pytest

from controller.parts import ControllerParts
from controller.settings import DeviceHealthMode
from leadsman.cli import controller, main
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.planning.replacement_plan import ReplacementSettings

API = ("--kube-api", "http://127.0.0.1:1")


def parsed(*arguments, **environ):
    return controller.settings(main.build_parser(environ, "controller").parse_args(["controller", *API, *arguments]))


def test_limits_are_flags() -> None:
    found = parsed("--max-marked-ratio", "0.5", "--max-flips-per-hour", "3", "--adopt").limits
    assert found == LabelLimits(max_marked_ratio=0.5, max_flips_per_hour=3, adopt=True)


def test_without_an_api_server_it_says_how_to_name_one() -> None:
    with pytest.raises(ValueError, match="name the API server with --kube-api"):
        controller.settings(main.build_parser({}, "controller").parse_args(["controller"]))


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
