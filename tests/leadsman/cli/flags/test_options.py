"""Flags and their environment."""

import argparse
from pathlib import Path

import pytest

from leadsman.cli import agent, main
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import Options

NODE = {"NODE_NAME": "edge-1", "POD_IP": "10.0.0.7", "POD_UID": "uid-1"}


def parsed(*arguments: str, **environ: str) -> argparse.Namespace:
    return main.build_parser(environ, "agent").parse_args(["agent", *arguments])


def test_a_pod_of_the_daemonset_needs_no_flags() -> None:
    settings = agent.settings(parsed(**NODE, NODE_ZONE="zone-a", LEADSMAN_ETCD="https://a:2379,https://b:2379/"))
    assert (settings.node, settings.address, settings.owner, settings.zone) == ("edge-1", "10.0.0.7", "uid-1", "zone-a")
    assert sorted(settings.etcd.endpoints) == ["https://a:2379", "https://b:2379"], "in an order of its own"


def test_a_flag_wins_over_its_variable_and_that_over_the_usual_name() -> None:
    environ = {**NODE, "LEADSMAN_NODE_NAME": "edge-2"}
    assert parsed(**environ).node_name == "edge-2"
    assert parsed("--node-name", "edge-3", **environ).node_name == "edge-3"


def test_without_the_environment_no_variable_is_read_nor_named_in_the_help() -> None:
    parser = argparse.ArgumentParser()
    add = Options(parser, {"LEADSMAN_NODE": "edge-1", "LEADSMAN_FAST": "1"}).without_environment()
    add.flag("node", "the node", "none")
    add.switch("fast", "be fast")
    assert vars(parser.parse_args([])) == {"node": "none", "fast": False}
    assert "LEADSMAN" not in parser.format_help()


def test_the_timeout_of_probes_is_set_by_its_flag() -> None:
    assert agent.probe_settings(parsed(**NODE)).timeout_seconds == 1.0
    assert agent.probe_settings(parsed("--probe-timeout-seconds", "10", **NODE)).timeout_seconds == 10.0


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LEADSMAN_PROBE", "pigeon", "--probe: 'pigeon': want one of auto, icmp, tcp"),
        ("LEADSMAN_MAX_PEERS", "0", "--max-peers: '0': want a whole number above 0"),
        ("LEADSMAN_WINDOW_SECONDS", "-3", "--window-seconds: '-3': want a number above 0"),
        ("LEADSMAN_ETCD", "localhost", "--etcd: 'localhost': want http://HOST:PORT"),
        ("LEADSMAN_PROC_ROOT", "/nowhere", "--proc-root: '/nowhere': no such folder"),
    ],
)
def test_a_bad_variable_is_refused_naming_the_flag_and_the_value(
    variable: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(**NODE, **{variable: value})
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_token_is_sent_over_tls_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    shown = ["--etcd-token-file", str(tmp_path / "token")]
    locked = process_flags.etcd_access(parsed("--etcd", "https://etcd:9004", *shown, **NODE))
    assert locked.authorization() == {"Authorization": "Bearer s3cret"}
    with pytest.raises(ValueError, match="in the clear"):
        process_flags.etcd_access(parsed("--etcd", "http://etcd:2379", *shown, **NODE))


def test_a_timing_that_would_make_healthy_nodes_stale_is_refused() -> None:
    with pytest.raises(ValueError, match="--call-timeout-seconds 3: want at most 1, as --push-interval-seconds is 1"):
        agent.settings(parsed("--push-interval-seconds", "1", **NODE))
