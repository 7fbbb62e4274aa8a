"""The arguments and settings in the manifests are ones that `leadsman` takes."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from leadsman.cli.certificates import MEMBER_NAMES, TRUST_CONFIG_MAP
from leadsman.cli.main import build_parser
from leadsman.cli.scheduler_files import ConfigureSettings, plan_changes
from leadsman.etcd.clients import AUDIENCE, TRUSTED_WITHOUT_REVIEW_SECONDS
from tests.daemonset.conftest import MANIFESTS, ROOT, Find, Objects, builds_with, load

WORKLOADS = {
    "agent": ("DaemonSet", "leadsman-agent"),
    "controller": ("Deployment", "leadsman-controller"),
    "extender": ("Deployment", "leadsman-extender"),
}


@pytest.fixture(params=sorted(WORKLOADS))
def command(request: pytest.FixtureRequest, build_name: str) -> str:
    if request.param == "controller" and build_name not in builds_with("controller"):
        return "extender"
    return request.param


@pytest.fixture
def container(command: str, find: Find) -> dict[str, Any]:
    (only,) = find(*WORKLOADS[command])["spec"]["template"]["spec"]["containers"]
    return only


@pytest.fixture
def settings(objects: Objects) -> dict[str, str]:
    (made,) = [o["data"] for o in objects if o["metadata"]["name"].startswith("leadsman-settings")]
    return made


def on_this_machine(argument: str) -> str:
    """Paths inside the container → the same things here; for a certificate any file, for a folder any; variables as the
    kubelet expands them."""
    argument = argument.replace("$(POD_NAMESPACE)", "leadsman")
    argument = argument.replace("/etc/leadsman/policy.yaml", str(MANIFESTS / "base/policy.yaml"))
    argument = re.sub("/etc/leadsman-tls/.*", str(ROOT / "setup.cfg"), argument)
    argument = argument.replace("/var/run/secrets/leadsman/etcd/ca.crt", str(ROOT / "setup.cfg"))
    argument = argument.replace("/var/lib/leadsman/recording", str(ROOT))
    return argument.replace("/host/", "/")


def test_every_argument_is_accepted_and_a_namespace_is_that_of_the_pod(
    command: str, container: dict[str, Any], settings: dict[str, str], build_name: str
) -> None:
    arguments = [on_this_machine(argument) for argument in container["args"]]
    environment = {name: on_this_machine(value) for name, value in settings.items()}
    of_pod = {each["name"]: "latency" for each in container.get("env", ()) if "metadata.namespace" in str(each)}
    parsed = build_parser({**environment, **of_pod}, only=command).parse_args(arguments)
    assert parsed.command == command
    assert not getattr(parsed, "plain_http", False)
    assert {value for name, value in vars(parsed).items() if name.endswith("namespace")} <= {"latency"}
    members = 1 if build_name == "etcd-single" else 3
    names = [f"leadsman-etcd-{number}.leadsman-etcd-peers" for number in range(members)]
    assert [urlsplit(url).hostname for url in parsed.etcd] == names


def test_etcd_s_gateways_are_called_by_tls_with_a_token_for_them(
    command: str, container: dict[str, Any], settings: dict[str, str], find: Find
) -> None:
    names = {urlsplit(url).hostname for url in settings["LEADSMAN_ETCD"].split(",") if url.startswith("https://")}
    assert names <= {*MEMBER_NAMES}
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "etcd-access"]
    volumes = find(*WORKLOADS[command])["spec"]["template"]["spec"]["volumes"]
    (sources,) = [each["projected"]["sources"] for each in volumes if each["name"] == "etcd-access"]
    (token,) = [each["serviceAccountToken"] for each in sources if "serviceAccountToken" in each]
    (trust,) = [each["configMap"]["name"] for each in sources if "configMap" in each]
    assert (f"{mount['mountPath']}/{token['path']}", token["audience"]) == (
        settings["LEADSMAN_ETCD_TOKEN_FILE"],
        AUDIENCE,
    )
    assert token["expirationSeconds"] <= TRUSTED_WITHOUT_REVIEW_SECONDS
    assert (settings["LEADSMAN_ETCD_CA"], trust) == (f"{mount['mountPath']}/ca.crt", TRUST_CONFIG_MAP)


@pytest.mark.parametrize("build_name", ["base"], indirect=True)
def test_the_member_s_sidecar_takes_its_arguments(find: Find) -> None:
    (sidecar,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["initContainers"]
    at = sidecar["args"].index("--")
    own = [on_this_machine(each) for each in sidecar["args"][:at]]
    parsed = build_parser({}, only="etcd-member").parse_args([*own, *sidecar["args"][at:]])
    assert all((parsed.tls_cert, parsed.tls_key, parsed.etcd_token_file))


# The scheduler's configurations are one: written by hand, by `configure-scheduler`, and of the second scheduler. Real
# kube-schedulers start with the last two: tests/leadsman/cli/configure, test_second_scheduler_on_kubernetes.

(SCHEDULER,) = load(MANIFESTS / "scheduler/kube-scheduler.yaml")
(EXTENDER,) = SCHEDULER["extenders"]


def test_it_is_what_configure_scheduler_writes() -> None:
    settings = ConfigureSettings(EXTENDER["urlPrefix"], EXTENDER["tlsConfig"]["serverName"])
    before = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (change,) = plan_changes("f", before, lambda _: None, settings)
    assert yaml.safe_load(change.after)["extenders"] == [EXTENDER]
    assert yaml.safe_load(change.after)["percentageOfNodesToScore"] == SCHEDULER["percentageOfNodesToScore"]


def test_the_second_scheduler_asks_as_the_first_does_but_binds_nothing_unasked() -> None:
    (second,) = load(MANIFESTS / "components/second-scheduler/scheduler.yaml")
    assert second["extenders"] == [{**EXTENDER, "ignorable": False}]
    assert second["percentageOfNodesToScore"] == SCHEDULER["percentageOfNodesToScore"]
    assert second["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": "leadsman",
        "resourceName": "leadsman-scheduler",
    }
