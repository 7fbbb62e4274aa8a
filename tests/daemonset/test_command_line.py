"""The arguments and settings in the manifests are ones that `leadsman` takes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leadsman.cli.main import build_parser

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find

ONLY_FOR_PEOPLE = {"POD_NAME"}
"""Seen in the pod's description; nothing reads it."""

WORKLOADS = {
    "agent": ("DaemonSet", "leadsman-agent"),
    "controller": ("Deployment", "leadsman-controller"),
    "extender": ("Deployment", "leadsman-extender"),
}


@pytest.fixture(params=sorted(WORKLOADS))
def command(request: pytest.FixtureRequest, build_name: str) -> str:
    if request.param == "controller" and build_name not in ("files", "controller", "everything"):
        return "extender"
    return request.param


@pytest.fixture
def container(command: str, find: "Find") -> dict[str, Any]:
    (only,) = find(*WORKLOADS[command])["spec"]["template"]["spec"]["containers"]
    return only


@pytest.fixture
def settings(root: Path) -> dict[str, str]:
    lines = (root / "daemonset/base/settings.env").read_text().split()
    return dict(line.split("=", 1) for line in lines)


def on_this_machine(argument: str, root: Path) -> str:
    """Paths inside the container → the same things here; for a certificate any file, for a recording any folder."""
    argument = argument.replace("/etc/leadsman/policy.yaml", str(root / "daemonset/base/policy.yaml"))
    argument = argument.replace("/etc/leadsman-shadow/", f"{root}/daemonset/components/shadow-policy/")
    argument = re.sub("/etc/leadsman-tls/.*", str(root / "setup.cfg"), argument)
    argument = argument.replace("/var/lib/leadsman/recording", str(root))
    return argument.replace("/host/", "/")


def test_every_argument_is_accepted(
    command: str, container: dict[str, Any], settings: dict[str, str], root: Path
) -> None:
    arguments = [on_this_machine(argument, root) for argument in container["args"]]
    parsed = build_parser(settings, only=command).parse_args(arguments)
    assert parsed.command == command
    assert not getattr(parsed, "plain_http", False)
    assert parsed.etcd == tuple(f"http://leadsman-etcd-{n}.leadsman-etcd-peers:2379" for n in range(3))


def test_every_variable_is_one_that_the_command_reads(
    command: str, container: dict[str, Any], settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        build_parser({}, only=command).parse_args([command, "--help"])
    known = capsys.readouterr().out
    wanted = {*settings, *(variable["name"] for variable in container.get("env", []))} - ONLY_FOR_PEOPLE
    assert not {name for name in wanted if f"${name}" not in known}


def test_settings_come_from_the_one_config_map(container: dict[str, Any]) -> None:
    (source,) = container["envFrom"]
    assert source["configMapRef"]["name"].startswith("leadsman-settings")


def test_an_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser({}, only="agent").parse_args(["agent", "--no-such-flag"])
    assert "--no-such-flag" in capsys.readouterr().err
