"""Flags and their environment."""

import argparse
from pathlib import Path

import pytest

from leadsman.cli import agent, main
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import Options, not_given
from leadsman.cli.flags.values import existing_file, listen_address, one_of, positive_int, positive_number, url_list

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


def test_the_tcp_port_of_peers_is_our_own_listen_port_unless_named() -> None:
    assert agent.probe_settings(parsed("--listen", "[::]:9200", **NODE)).tcp_port == 9200
    assert agent.probe_settings(parsed("--tcp-port", "80", **NODE)).tcp_port == 80


def test_the_timeout_of_probes_is_set_by_its_flag() -> None:
    assert agent.probe_settings(parsed(**NODE)).timeout_seconds == 1.0
    assert agent.probe_settings(parsed("--probe-timeout-seconds", "10", **NODE)).timeout_seconds == 10.0


def test_without_an_owner_each_process_is_its_own() -> None:
    nameless = {**NODE, "POD_UID": ""}
    assert agent.settings(parsed(**nameless)).owner != agent.settings(parsed(**nameless)).owner


def test_a_missing_address_is_refused_saying_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"--address is missing.*\$POD_IP"):
        agent.settings(parsed(NODE_NAME="edge-1"))


def test_a_timing_that_would_make_healthy_nodes_stale_is_refused() -> None:
    with pytest.raises(ValueError, match="--call-timeout-seconds 3: want at most 1, as --push-interval-seconds is 1"):
        agent.settings(parsed("--push-interval-seconds", "1", **NODE))


def test_a_node_name_that_cannot_be_a_key_is_refused() -> None:
    arguments = parsed(**NODE)
    arguments.node_name = "Edge_1"
    with pytest.raises(ValueError, match="node name 'Edge_1'"):
        agent.settings(arguments)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LEADSMAN_PROBE", "pigeon", "--probe: 'pigeon': want one of auto, icmp, tcp"),
        ("LEADSMAN_MAX_PEERS", "0", "--max-peers: '0': want a whole number above 0"),
        ("LEADSMAN_WINDOW_SECONDS", "-3", "--window-seconds: '-3': want a number above 0"),
        ("LEADSMAN_ETCD", "localhost", "--etcd: 'localhost': want http://HOST:PORT"),
        ("LEADSMAN_PEERS", "/nowhere", "--peers: '/nowhere': no such file"),
        ("LEADSMAN_PROC_ROOT", "/nowhere", "--proc-root: '/nowhere': no such folder"),
    ],
)
def test_a_bad_variable_is_refused_naming_the_flag_and_the_value(
    variable: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(**NODE, **{variable: value})
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_bad_static_list_is_refused_naming_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "peers").write_text("edge-2\n")
    with pytest.raises(ValueError, match=r"--peers .*/peers: line 1: 1 fields"):
        agent.settings(parsed("--peers", str(tmp_path / "peers"), **NODE))


def test_a_token_is_sent_over_tls_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    shown = ["--etcd-token-file", str(tmp_path / "token")]
    locked = process_flags.etcd_access(parsed("--etcd", "https://etcd:9004", *shown, **NODE))
    assert locked.authorization() == {"Authorization": "Bearer s3cret"}
    with pytest.raises(ValueError, match="in the clear"):
        process_flags.etcd_access(parsed("--etcd", "http://etcd:2379", *shown, **NODE))


@pytest.mark.parametrize("text", ["", ":80", "host", "host:", "host:x", "host:65536"])
def test_a_bad_listen_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="want HOST:PORT"):
        listen_address(text)


@pytest.mark.parametrize("parse", [url_list, positive_number, positive_int, one_of("a")])
def test_every_parser_refuses_nonsense_with_its_own_error(parse: type) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="want"):
        parse("\N{SNOWMAN}")


@pytest.mark.parametrize(
    ("default", "shown"), [("text", "text"), (10.0, "10"), (0.25, "0.25"), (3, "3"), (frozenset({"b", "a"}), "a,b")]
)
def test_the_help_shows_the_default_of_the_code_as_a_user_would_give_it(default: object, shown: str) -> None:
    parser = argparse.ArgumentParser()
    Options(parser, {"LEADSMAN_LIMIT": "other"}).flag("limit", "the limit (default {default}; 0: none)", default)
    assert f"the limit (default {shown}; 0: none) [$LEADSMAN_LIMIT]" in " ".join(parser.format_help().split())


def test_the_usage_shows_what_a_value_is_by_its_parser_and_by_the_unit_of_the_name() -> None:
    parser = argparse.ArgumentParser()
    add = Options(parser, None)
    add.argument("cluster", "a file", None, existing_file)
    add.argument("hold-seconds", "how long", 1.0, positive_number)
    add.argument("gain", "how much", 1.0, positive_number, metavar="POINTS")
    add.argument("owner", "whose")
    shown = " ".join(parser.format_usage().split())
    assert shown.endswith("[--cluster FILE] [--hold-seconds S] [--gain POINTS] [--owner OWNER]")


def test_flags_that_were_not_given_are_named_as_they_are_typed() -> None:
    args = argparse.Namespace(tls_key=None, tls_cert="tls.crt")
    assert not_given(args, "--tls-cert", "--tls-key") == ["--tls-key"]
