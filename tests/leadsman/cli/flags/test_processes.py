"""What agent, extender and controller take from their flags and their pod's environment, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest

from controller.run import ControllerParts
from controller.settings import DeviceHealthMode
from leadsman.cli import agent, controller, extender, main
from leadsman.cli.flags import process_flags
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.planning.replacement_plan import ReplacementSettings
from tests.leadsman.cli.conftest import kubeconfig

NODE = {"NODE_NAME": "edge-1", "POD_IP": "10.0.0.7", "POD_UID": "uid-1"}
API = ("--kube-api", "http://127.0.0.1:1")
COMMANDS: dict[str, Any] = {"agent": agent, "controller": controller, "extender": extender}


@pytest.fixture(autouse=True)
def outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def parsed(command: str, *arguments: str, **environ: str) -> Any:
    return main.build_parser(environ, command).parse_args([command, *arguments])


def settings(command: str, *arguments: str, **environ: str) -> Any:
    return COMMANDS[command].settings(parsed(command, *arguments, **environ))


def test_a_pod_of_the_daemonset_needs_no_flags() -> None:
    found = settings("agent", **NODE, NODE_ZONE="zone-a", LEADSMAN_ETCD="https://a:2379,https://b:2379/")
    assert (found.node, found.address, found.owner, found.zone) == ("edge-1", "10.0.0.7", "uid-1", "zone-a")
    assert sorted(found.etcd.endpoints) == ["https://a:2379", "https://b:2379"], "in an order of its own"


def test_a_flag_wins_over_its_variable_and_that_over_the_usual_name() -> None:
    environ = {**NODE, "LEADSMAN_NODE_NAME": "edge-2"}
    assert parsed("agent", **environ).node_name == "edge-2"
    assert parsed("agent", "--node-name", "edge-3", **environ).node_name == "edge-3"


def test_the_timeout_of_probes_is_set_by_its_flag() -> None:
    assert settings("agent", **NODE).probing.timeout_seconds == 1.0
    assert settings("agent", "--probe-timeout-seconds", "10", **NODE).probing.timeout_seconds == 10.0


@pytest.mark.parametrize(
    ("command", "variable", "value", "message"),
    [
        ("agent", "POD_IP", "0.0.0.0", "--address: '0.0.0.0': want an IP address of this node"),
        ("agent", "POD_IP", "edge-1", "--address: 'edge-1': want an IP address of this node"),
        ("agent", "LEADSMAN_PROBE", "pigeon", "--probe: 'pigeon': want one of auto, icmp, tcp"),
        ("agent", "LEADSMAN_MAX_PEERS", "147", "--max-peers: '147': want a whole number from 1 to 146"),
        ("agent", "LEADSMAN_WINDOW_SECONDS", "-3", "--window-seconds: '-3': want a number above 0"),
        ("agent", "LEADSMAN_ETCD", "localhost", "--etcd: 'localhost': want http://HOST:PORT"),
        ("agent", "LEADSMAN_PROC_ROOT", "/nowhere", "--proc-root: '/nowhere': no such folder"),
        ("extender", "INITIAL_CLUSTER_LAYERS", "5;25", "want milliseconds, 0 to 60000, comma-separated"),
        ("extender", "LEADSMAN_INITIAL_LAYERS", "nan", "want milliseconds, 0 to 60000, comma-separated"),
    ],
)
def test_a_bad_variable_is_refused_naming_the_flag_and_the_value(
    command: str, variable: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(command, **{**NODE, variable: value})
    assert message in " ".join(capsys.readouterr().err.split())


PEM = ("--tls-cert", "{pem}", "--tls-key", "{pem}", "--tls-client-ca", "{pem}")
TWO_SERVERS = ("--plain-http", "--kubeconfig", "{config}", "--kube-api", "https://there")


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("agent", ("--push-interval-seconds", "1"), "--call-timeout-seconds 3: want at most 1, as --push-interval"),
        ("extender", (), "--tls-cert, --tls-key, --tls-client-ca not given.*--plain-http"),
        ("extender", PEM[:4], "^--tls-client-ca not given"),
        ("extender", PEM[2:], "^--tls-cert not given"),
        ("extender", ("--plain-http", *PEM), "exclude each other"),
        ("extender", ("--plain-http", "--bind"), "--bind needs an API server: .*--kube-api or --kubeconfig"),
        ("extender", TWO_SERVERS, "exclude each other"),
        ("extender", ("--plain-http", "--kube-ca", "{pem}"), "need --kube-api too"),
        ("extender", ("--plain-http", "--kube-token-file", "{pem}"), "need --kube-api too"),
        ("controller", (), "name the API server with --kube-api"),
        ("controller", (*API, "--replacement"), "--replacement needs --backups"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused_with_what_to_do(
    command: str, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    (tmp_path / "pem").touch()
    (tmp_path / "config").write_text(kubeconfig("https://there"))
    given = [each.format(pem=tmp_path / "pem", config=tmp_path / "config") for each in arguments]
    with pytest.raises(ValueError, match=message):
        settings(command, *given, **(NODE if command == "agent" else {}))


def test_the_environment_names_the_api_server_too(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(kubeconfig("https://there:6443"))
    found = settings("extender", "--plain-http", LEADSMAN_KUBECONFIG=str(tmp_path / "config"))
    assert found.api.url == "https://there:6443"


def test_the_client_is_kube_scheduler_unless_named(tmp_path: Path) -> None:
    (tmp_path / "pem").touch()
    given = [word for flag in ("--tls-cert", "--tls-key", "--tls-client-ca") for word in (flag, str(tmp_path / "pem"))]
    assert settings("extender", *given).tls.client_names == {"kube-scheduler"}
    assert settings("extender", *given, "--tls-client-name", "a, b").tls.client_names == {"a", "b"}


@pytest.mark.parametrize("said", ["5,25.5", "[5, 25.5]"])
def test_layers_may_come_by_the_originals_name(said: str) -> None:
    assert settings("extender", "--plain-http", INITIAL_CLUSTER_LAYERS=said).delays.initial_layers_ms == (5.0, 25.5)


def test_sources_stand_in_the_order_given_and_prometheus_with_its_url() -> None:
    sources = "custom-metrics,prometheus=https://prom:9090/x,agents"
    found = settings("extender", "--plain-http", *API, "--telemetry", sources).telemetry
    assert found.sources == ("custom-metrics", "prometheus", "agents")
    assert (found.prometheus.url, found.api.url) == ("https://prom:9090/x", "http://127.0.0.1:1")
    assert (found.poll_interval_seconds, found.age_seconds) == (5.0, 15.0)


def test_a_token_is_sent_over_tls_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    shown = ["--etcd-token-file", str(tmp_path / "token")]
    locked = process_flags.etcd_access(parsed("agent", "--etcd", "https://etcd:9004", *shown, **NODE))
    assert locked.authorization() == {"Authorization": "Bearer s3cret"}
    with pytest.raises(ValueError, match="in the clear"):
        process_flags.etcd_access(parsed("agent", "--etcd", "http://etcd:2379", *shown, **NODE))


def test_numbers_of_the_controller_s_parts_are_flags() -> None:
    limits = settings("controller", *API, "--max-marked-ratio", "0.5", "--max-flips-per-hour", "3", "--adopt").limits
    assert limits == LabelLimits(max_marked_ratio=0.5, max_flips_per_hour=3, adopt=True)
    backups = ("--node-health", "report", "--backups")
    assert settings("controller", *API, *backups).self_healing.replacement is None
    moving = ("--replacement", "--replacement-hold-seconds", "5", "--replacements-per-minute", "7")
    assert settings("controller", *API, *backups, *moving).self_healing.replacement == ReplacementSettings(
        hold_seconds=5.0, per_minute=7
    )


def test_devices_are_judged_only_when_asked_for_and_only_with_prometheus() -> None:
    assert settings("controller", *API).device_health is DeviceHealthMode.OFF
    sources = ("--telemetry", "agents,prometheus=http://prometheus:9090")
    assert (
        settings("controller", *API, "--device-health", "dry-run", *sources).device_health is DeviceHealthMode.DRY_RUN
    )
    with pytest.raises(ValueError, match="write --telemetry prometheus=http://HOST:PORT"):
        ControllerParts(settings("controller", *API, "--device-health", "act"))
