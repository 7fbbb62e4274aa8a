"""What users set in the chart arrives where they mean it."""

import contextlib
import lzma
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from leadsman.cli.certificates import MEMBER_NAMES, MEMBER_SECRET, MOST_MEMBERS, TRUST_CONFIG_MAP
from leadsman.cli.certs import default_server_names
from leadsman.cli.certs_actions import ETCD_CA_SECRET
from leadsman.cli.extender_client import SELECTOR
from leadsman.cli.main import build_parser
from tests import kubernetes_schemas
from tests.daemonset.conftest import EVERY_SETTING, Objects, Template, documents, objects_named, run_template
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import blocked_until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("part", ["agent", "extender", "controller", "etcd", "scheduler"])
def test_each_part_takes_the_settings_that_users_know_from_other_charts(part: str, template: Template) -> None:
    toleration, rule = {"key": "edge", "operator": "Exists"}, {"weight": 1, "preference": {"matchExpressions": []}}
    node_affinity = {"preferredDuringSchedulingIgnoredDuringExecution": [rule]}
    settings = {
        "tolerations": [toleration],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": node_affinity},
        "podAnnotations": {"team": "edge"},
        "podLabels": {"cost": "none"},
        "resources": {"requests": {"cpu": "7m", "memory": "70Mi"}, "limits": {"memory": "700Mi"}},
        "extraArgs": ["--own-flag=1"],
    }
    enabled = ("profile=controller", "scheduler.enabled=true")
    objects = template(*enabled, values={part: settings})
    named = [each for each in objects if each["metadata"]["name"] == f"leadsman-{part}"]
    (workload,) = [each for each in named if "template" in each.get("spec", {})]
    metadata, spec = workload["spec"]["template"]["metadata"], workload["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    arguments = [argument for each in [*spec.get("initContainers", []), container] for argument in each["args"]]
    assert spec["tolerations"] == [toleration]
    assert spec["nodeSelector"]["disk"] == "ssd"
    assert spec["affinity"]["nodeAffinity"] == node_affinity
    assert metadata["annotations"]["team"] == "edge"
    assert metadata["labels"]["cost"] == "none"
    assert container["resources"] == settings["resources"]
    assert "--own-flag=1" in arguments
    assert part != "etcd" or f"--quota-backend-bytes={350 << 20}" in arguments  # half of its memory


def test_alerts_link_to_the_runbooks_where_the_user_publishes_them(template: Template) -> None:
    objects = template(
        "prometheusRule.enabled=true", "prometheusRule.runbooksUrl=https://docs.example.com/runbooks.html"
    )
    (rules,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert {each["alert"]: each["annotations"]["runbook_url"] for each in alerts} == {
        each["alert"]: f"https://docs.example.com/runbooks.html#{each['alert'].lower()}" for each in alerts
    }


def test_every_object_has_the_name_and_every_account_the_annotations_that_the_user_chose(template: Template) -> None:
    objects = template("nameOverride=edge", "serviceAccount.annotations.role=arn", "profile=self-healing")
    names = {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in objects if "labels" in each["metadata"]}
    assert names == {"edge"}
    (extender,) = objects_named(objects, "Deployment", "leadsman-extender")
    asked = dict(label.split("=") for label in SELECTOR.split(","))
    assert asked.items() <= extender["spec"]["template"]["metadata"]["labels"].items(), "the command line finds it"
    accounts = [each for each in objects if each["kind"] == "ServiceAccount" and "helm.sh/hook" not in str(each)]
    assert {each["metadata"]["annotations"]["role"] for each in accounts} == {"arn"}


def test_the_prometheus_of_telemetry_policies_is_reached_by_extenders_and_controllers(template: Template) -> None:
    """Whatever the Service's port is: a plugin may see the pod's."""
    sources = "agents,prometheus=http://prometheus.monitoring:8080/main"
    chosen = "telemetry.enabled=true,profile=controller,controller.deviceHealth.enabled=true"
    escaped = sources.replace(",", r"\,")
    objects = template(chosen, f"telemetry.source={escaped}")
    (settings,) = [each for each in objects if each["metadata"]["name"] == "leadsman-settings"]
    assert settings["data"]["LEADSMAN_TELEMETRY"] == sources
    for name in ("leadsman-extender", "leadsman-controller"):
        (policy,) = objects_named(objects, "NetworkPolicy", name)
        assert ["to"] in [list(each) for each in policy["spec"]["egress"] if "monitoring" in str(each)], name
    (controller,) = objects_named(objects, "Deployment", "leadsman-controller")
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    assert f"--telemetry={sources}" in container["args"]


def test_the_charts_own_scheduler_may_call_where_others_are_named_by_address(template: Template) -> None:
    objects = template("scheduler.enabled=true", "networkPolicy.schedulerCIDRs={192.0.2.10/32}")
    (policy,) = objects_named(objects, "NetworkPolicy", "leadsman-extender")
    addresses, own = policy["spec"]["ingress"][0]["from"]
    assert addresses == {"ipBlock": {"cidr": "192.0.2.10/32"}}
    assert own["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "scheduler"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("planning.rebalance=true", "profile=self-healing"),
        ("planning.movePlans=true,profile=controller", "profile=self-healing"),
        ("controller.deviceHealth.enabled=true", "profile=controller"),
        ("etcd.replicas=1,etcd.persistence.enabled=true", "etcd.replicas=3"),
        ("certificates.days=365,certificates.renewBeforeDays=365", "less than certificates.days"),
        ("fullnameOverride=edge", "nameOverride"),
        ("agent.hostNetwrok=true", "hostNetwrok"),
        ("etcd.replicas=2", "/etcd/replicas"),
        ("etcd.resources.limits.memory=2G", "etcd.resources.limits.memory"),
        ("logLevel=loud", "/logLevel"),
        ("certificates.mode=none", "/certificates/mode"),
        ("profile=all", "/profile"),
        ("telemetry.source=prometheus", "/telemetry/source"),
    ],
)
def test_a_value_that_it_does_not_take_is_named_or_what_it_needs(settings: str, named: str, helm: str) -> None:
    done = run_template(helm, settings)
    assert done.returncode != 0
    assert named in done.stderr


# However certificates are made, by a job, by cert-manager or by hand, the chart names the same ones.


def test_the_job_of_the_certificates_is_gone_after_its_hook_and_may_only_touch_its_secrets(template: Template) -> None:
    plain = template("certificates.mode=given")
    names = {(each["kind"], each["metadata"]["name"]) for each in plain}
    added = [
        each for each in template("certificates.mode=job") if (each["kind"], each["metadata"]["name"]) not in names
    ]
    by_kind = {each["kind"]: each for each in added}
    assert sorted(by_kind) == ["Job", "NetworkPolicy", "Role", "RoleBinding", "ServiceAccount"]
    for each in added:
        kubernetes_schemas.validate(each, "1.36")
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert "hook-succeeded" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    job, policy = by_kind["Job"], by_kind["NetworkPolicy"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {"port": 6443, "protocol": "TCP"} in policy["spec"]["egress"][-1]["ports"]
    before, weight = (int(each["metadata"]["annotations"]["helm.sh/hook-weight"]) for each in (policy, job))
    assert before < weight, "it is there when the job starts"
    secrets, config_maps = by_kind["Role"]["rules"]
    of_etcd = [ETCD_CA_SECRET, MEMBER_SECRET]
    assert secrets["resourceNames"] == ["leadsman-ca", "leadsman-extender-tls", "leadsman-scheduler-tls", *of_etcd]
    assert secrets["verbs"] == ["get", "create", "patch"]
    assert (config_maps["resourceNames"], config_maps["verbs"]) == ([TRUST_CONFIG_MAP], ["create", "patch"])
    (container,) = job["spec"]["template"]["spec"]["containers"]
    args = build_parser({}, "certs").parse_args(container["args"])
    assert (args.action, args.namespace, args.days) == ("cluster", "leadsman", 365)
    assert "secrets" not in str(
        [each.get("rules") for each in (*plain, *template(*EVERY_SETTING, "certificates.mode=given"))]
    )


def test_cert_manager_issues_the_names_that_leadsman_certs_does(template: Template) -> None:
    made = {
        each["spec"]["secretName"]: each["spec"]
        for each in template("certificates.mode=cert-manager", f"etcd.replicas={MOST_MEMBERS}")
        if each["kind"] == "Certificate"
    }
    extender, member, trust = (made[name] for name in ("leadsman-extender-tls", MEMBER_SECRET, TRUST_CONFIG_MAP))
    assert (*extender["dnsNames"], "localhost", "127.0.0.1") == default_server_names("leadsman")
    assert {*member["dnsNames"], *member["ipAddresses"]} == {*MEMBER_NAMES}
    assert not {"server auth", "client auth"} & {*trust["usages"]}, "each node reads its key"


# What the chart gives cert-manager, held against the CRDs of its release 1.21.1. It does not run here.

CRDS = Path(__file__).parents[1] / "data/cert_manager/crds.yaml.xz"
GROUP = "cert-manager.io"


@pytest.fixture(scope="module")
def ours(template: Template) -> Objects:
    rendered = template("certificates.mode=cert-manager", "etcd.replicas=5")
    return [each for each in rendered if each["apiVersion"] == f"{GROUP}/v1"]


def test_a_ca_keeps_its_key_so_that_what_it_signed_stays_valid(ours: Objects) -> None:
    """Since 1.18 cert-manager makes a new key at each renewal unless it is told otherwise."""
    policies = {
        each["metadata"]["name"]: each["spec"]["privateKey"]["rotationPolicy"]
        for each in ours
        if each["kind"] == "Certificate" and each["spec"].get("isCA")
    }
    assert policies == {"leadsman-ca": "Never", "leadsman-etcd-ca": "Never"}


@pytest.mark.slow
def test_a_real_api_server_with_its_crds_takes_them(ours: Objects, kubernetes_binaries: Path, tmp_path: Path) -> None:
    """With strict field validation: CEL rules and defaults of the CRDs too."""
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for crd in documents(lzma.decompress(CRDS.read_bytes())):
            api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for each in ours:
            blocked_until(lambda each=each: is_served(api, each), "a new kind is served a moment after its definition")
            api.call("POST", f"{collection(each)}?fieldValidation=Strict", each)
        listed = api.call("GET", collection({"kind": "Certificate"}))["items"]
        assert len(listed) == sum(each["kind"] == "Certificate" for each in ours)


def collection(each: dict[str, Any]) -> str:
    return f"/apis/{GROUP}/v1/namespaces/leadsman/{each['kind'].lower()}s"


def is_served(api: KubeApiServer, each: dict[str, Any]) -> bool:
    with contextlib.suppress(HTTPError):
        return bool(api.call("GET", collection(each)))
    return False
