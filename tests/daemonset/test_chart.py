"""The Helm chart deploys what kustomize does, and says clearly what it does not take."""

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from leadsman.cli.certs import default_server_names
from leadsman.cli.certs.authority import REPLICA_NAME
from leadsman.cli.certs.certificate_files import REPLICA
from leadsman.cli.certs.cluster import ETCD_CA_SECRET, SECRET_OF
from leadsman.cli.certs.etcd_certificates import (
    ISSUER_NAMES,
    ISSUER_SECRET,
    MEMBER_NAMES,
    MEMBER_SECRET,
    MOST_MEMBERS,
    ROOT_SECRET,
    TRUST_CONFIG_MAP,
)
from leadsman.cli.main import build_parser
from tests.daemonset.conftest import BUILDS, CHART, COMPONENTS, EVERYTHING, ROOT, Template, run_template

if TYPE_CHECKING:
    from tests.daemonset.conftest import Objects, Render

pytestmark = pytest.mark.integration

SETTINGS_OF = {
    "hostnetwork": "agent.hostNetwork=true",
    "host-metrics": "agent.hostMetrics=true",
    "prometheus": "serviceMonitor.enabled=true,prometheusRule.enabled=true",
    "dashboards": "dashboards.enabled=true",
    "etcd-single": "etcd.replicas=1",
    "etcd-volumes": "etcd.persistence.enabled=true",
    "etcd-locked": "etcd.locked=true",
    "bind": "extender.bind=true",
    "telemetry": "telemetry.enabled=true",
    "controller": "controller.enabled=true",
    "cluster-model": "controller.clusterModel=true",
    "node-health": "selfHealing.nodeHealth=true",
    "backups": "selfHealing.backups=true",
    "failover": "selfHealing.failover=true",
    "warm-images": "selfHealing.warmImages=5",
    "replacement": "selfHealing.replacement=true",
    "move-plans": "planning.movePlans=true",
    "rebalance": "planning.rebalance=true",
    "placement-events": "controller.placementEvents=true",
    "device-health": "controller.deviceHealth.enabled=true",
    "devices": "extender.devices=true",
    "page": "extender.page=true",
    "page-service": "extender.pageService.enabled=true",
    "page-history": "extender.prometheus.url=http://prometheus-operated.monitoring:9090",
    "shared-journal": "extender.sharedJournal=true",
    "shared-plan": "controller.sharedPlan=true",
    "recording": "extender.recording=true",
    "second-scheduler": "scheduler.enabled=true,scheduler.image.tag=v1.36.2",
    "shadow-policy": "extender.shadow.enabled=true",
    "self-healing-extender": "selfHealing.extender=true",
}
"""Component → the setting that has the same objects made."""
ALSO_WITHOUT = ["etcd.locked=false"]
"""Settings that take off what the chart has by default and the base does not."""

EVERY_SETTING = [SETTINGS_OF[component] for component in EVERYTHING]

DEPLOYMENT = ("Deployment", "leadsman-extender")


def comparable(objects: "Objects") -> dict[tuple[str, ...], dict[str, Any]]:
    """By kind, namespace and name, without what says who deployed it and the release's own Namespace."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in objects:
        metadata = each["metadata"]
        metadata["name"] = without_hash(metadata["name"])
        pod = each.get("spec", {}).get("template")
        for labelled in [metadata, *([pod["metadata"]] if isinstance(pod, dict) else [])]:
            for tool in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
                labelled["labels"].pop(tool, None)
        if each["kind"] in ("DaemonSet", "Deployment", "StatefulSet"):
            forget_restarts_defaults_and_order(pod)
        if each["kind"] == "ConfigMap" and metadata["name"] != "leadsman-settings":
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
        if each["kind"] == "NetworkPolicy":
            forget_order(each["spec"]["egress"], *(rule.get("from", []) for rule in each["spec"]["ingress"]))
        if (each["kind"], metadata["name"]) != ("Namespace", "leadsman"):
            found[each["kind"], metadata.get("namespace", ""), metadata["name"]] = each
    return found


def forget_order(*lists: list[Any]) -> None:
    for each in lists:
        each.sort(key=lambda item: json.dumps(item, sort_keys=True))


def forget_restarts_defaults_and_order(pod: dict[str, Any]) -> None:
    """The checksum does what kustomize's hash does; the API server's default for a tag is IfNotPresent."""
    pod["metadata"].pop("annotations", None)
    for volume in pod["spec"].setdefault("volumes", []):
        if "configMap" in volume:
            volume["configMap"]["name"] = without_hash(volume["configMap"]["name"])
    forget_order(pod["spec"]["volumes"])
    for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
        forget_order(container.setdefault("volumeMounts", []))
        container.pop("imagePullPolicy", None)
        container.get("env", []).sort(key=lambda variable: str(variable["name"]))
        container["envFrom"] = [
            {"configMapRef": {"name": without_hash(each["configMapRef"]["name"])}}
            for each in container.get("envFrom", [])
        ]


def without_hash(name: str) -> str:
    """The name of a ConfigMap without kustomize's hash."""
    return re.sub(r"^(leadsman-(?:settings|scheduler-configuration))-\w{10}$", r"\1", name)


def test_every_component_has_a_setting() -> None:
    """A new one needs a value and its schema, its part in _helpers.tpl and rights.yaml, and a line above."""
    assert sorted(SETTINGS_OF) == COMPONENTS


@pytest.mark.parametrize("build", BUILDS)
def test_it_deploys_what_kustomize_does(build: str, template: Template, render: "Render") -> None:
    ours = comparable(template(*ALSO_WITHOUT, *(SETTINGS_OF[component] for component in BUILDS[build])))
    theirs = comparable([json.loads(json.dumps(each)) for each in render(build)])
    assert ours.keys() == theirs.keys()
    for name, each in theirs.items():
        assert ours[name] == each, name


def test_what_a_setting_needs_comes_with_it(template: Template) -> None:
    assert comparable(template("selfHealing.failover=true")) == comparable(
        template(*(SETTINGS_OF[each] for each in BUILDS["failover"]))
    )


@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_with_everything_set_every_object_is_valid_against_the_schemas_of(version: str, template: Template) -> None:
    settings = [
        "certificates.mode=cert-manager",
        "imagePullSecrets[0].name=pull",
        "serviceMonitor.additionalLabels.release=kps",
        "serviceMonitor.interval=30s",
        "networkPolicy.schedulerCIDRs={192.0.2.10/32}",
        "etcd.persistence.storageClassName=fast",
        "agent.podLabels.team=edge",
        "agent.extraArgs={--pods=off}",
    ]
    objects = template(*EVERY_SETTING, *settings)
    assert {each["kind"] for each in objects} >= {"Certificate", "Issuer", "PodMonitor"}
    for each in objects:
        if each["apiVersion"].partition("/")[0] not in ("monitoring.coreos.com", "cert-manager.io"):
            kubernetes_validate.validate(each, version, strict=True)


def test_the_job_of_the_certificates_is_gone_after_its_hook_and_may_only_touch_its_secrets(template: Template) -> None:
    plain = template()
    names = {(each["kind"], each["metadata"]["name"]) for each in plain}
    added = [
        each
        for each in template("certificates.mode=job", "extender.tlsSecret=other-tls")
        if (each["kind"], each["metadata"]["name"]) not in names
    ]
    by_kind = {each["kind"]: each for each in added}
    assert sorted(by_kind) == ["Job", "Role", "RoleBinding", "ServiceAccount"]
    for each in added:
        kubernetes_validate.validate(each, "1.36", strict=True)
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert "hook-succeeded" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
    secrets, config_maps = by_kind["Role"]["rules"]
    of_etcd = [ETCD_CA_SECRET, MEMBER_SECRET, ISSUER_SECRET, ROOT_SECRET]
    assert secrets["resourceNames"] == ["leadsman-ca", "other-tls", "leadsman-scheduler-tls", *of_etcd]
    assert secrets["verbs"] == ["get", "create", "patch"]
    assert (config_maps["resourceNames"], config_maps["verbs"]) == ([TRUST_CONFIG_MAP], ["create", "patch"])
    (container,) = by_kind["Job"]["spec"]["template"]["spec"]["containers"]
    args = build_parser({}, "certs").parse_args(container["args"])
    assert (args.action, args.namespace, args.server_secret, args.days) == ("cluster", "leadsman", "other-tls", 365)
    assert args.locked_etcd
    assert "secrets" not in str([each.get("rules") for each in (*plain, *template(*EVERY_SETTING))])


def test_the_certificate_of_replicas_is_made_where_they_are_asked_for(template: Template) -> None:
    objects = template("certificates.mode=job", "extender.sharedJournal=true")
    (role,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Role", "leadsman-certificates")
    ]
    (job,) = [each for each in objects if each["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert SECRET_OF[REPLICA] in role["rules"][0]["resourceNames"]
    assert build_parser({}, "certs").parse_args(container["args"]).replica
    issued = template("certificates.mode=cert-manager", "extender.sharedJournal=true")
    (spec,) = [each["spec"] for each in issued if each["metadata"]["name"] == "leadsman-replica"]
    assert (spec["secretName"], spec["commonName"]) == (SECRET_OF[REPLICA], REPLICA_NAME)
    assert spec["dnsNames"] == [REPLICA_NAME]


def test_a_guarded_prometheus_is_asked_with_the_ca_and_the_token_of_a_secret(template: Template) -> None:
    objects = template("extender.prometheus.url=https://thanos.monitoring", "extender.prometheus.secret=thanos")
    specs = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in objects if "spec" in each}
    spec = specs[DEPLOYMENT]["template"]["spec"]
    (container,) = spec["containers"]
    given = dict(argument.partition("=")[::2] for argument in container["args"])
    (folder,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "prometheus"]
    assert (given["--prometheus-ca"], given["--prometheus-token-file"]) == (f"{folder}/ca.crt", f"{folder}/token")
    assert given["--page-listen"], "the page asks it, so it is served"
    assert {"secretName": "thanos", "defaultMode": 0o440} in [volume.get("secret") for volume in spec["volumes"]]
    egress = specs["NetworkPolicy", "leadsman-extender"]["egress"]
    assert {"port": 443, "protocol": "TCP"} in [port for rule in egress for port in rule.get("ports", ())]


def test_the_pages_service_answers_for_an_ingress_with_a_certificate_of_its_own(template: Template) -> None:
    chosen = ("extender.pageService.enabled=true", "extender.pageService.hosts={leadsman.example.com}")
    objects = template(*chosen, "extender.pageService.tlsSecret=page-tls")
    (extender,) = [each for each in objects if (each["kind"], each["metadata"]["name"]) == DEPLOYMENT]
    spec = extender["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = dict(argument.partition("=")[::2] for argument in container["args"])
    assert given["--page-hosts"].split(",")[-1] == "leadsman.example.com"
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted["page-tls"] == given["--page-tls"]
    assert {"secretName": "page-tls", "defaultMode": 0o440} in [volume.get("secret") for volume in spec["volumes"]]


def test_the_extenders_certificate_has_the_names_of_its_services_however_it_is_made(template: Template) -> None:
    issued = {
        each["metadata"]["name"]: each["spec"]
        for each in template("certificates.mode=cert-manager")
        if each["kind"] == "Certificate"
    }
    names = default_server_names("leadsman")
    assert (*issued["leadsman-extender"]["dnsNames"], "localhost", "127.0.0.1") == names


def test_an_open_etcd_has_no_certificates_made_for_it(template: Template) -> None:
    objects = template("certificates.mode=job", "etcd.locked=false")
    (job,) = [each for each in objects if each["kind"] == "Job"]
    roles = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Role"}
    assert "etcd" not in str((job, roles["leadsman-certificates"]))


def test_cert_manager_issues_the_names_that_leadsman_certs_does(template: Template) -> None:
    made = {
        each["spec"]["secretName"]: each["spec"]
        for each in template("certificates.mode=cert-manager", f"etcd.replicas={MOST_MEMBERS}")
        if each["kind"] == "Certificate"
    }
    member, issuer, trust, root = (made[name] for name in (MEMBER_SECRET, ISSUER_SECRET, TRUST_CONFIG_MAP, ROOT_SECRET))
    assert {*member["dnsNames"], *member["ipAddresses"]} == {*MEMBER_NAMES}
    assert {*issuer["dnsNames"]} == {*ISSUER_NAMES}
    assert not {"server auth", "client auth"} & {*trust["usages"]}, "each node reads its key"
    assert root["privateKey"]["rotationPolicy"] == "Never", "it stands for a password that etcd knows"
    assert root["issuerRef"]["name"] != member["issuerRef"]["name"]


def test_with_cert_manager_processes_mount_the_ca_s_certificate_and_no_key(template: Template) -> None:
    sources = [
        source
        for each in template("certificates.mode=cert-manager", "controller.enabled=true")
        if each["kind"] in ("DaemonSet", "Deployment")
        for volume in each["spec"]["template"]["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", [])
        if "secret" in source
    ]
    only = {"secret": {"name": TRUST_CONFIG_MAP, "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    assert sources == [only] * 3


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_a_locked_etcd_of_any_size_is_called_by_tls_everywhere(replicas: int, template: Template) -> None:
    text = json.dumps(template(f"etcd.replicas={replicas}"))
    assert text.count(f"https://leadsman-etcd-{replicas - 1}.leadsman-etcd-peers:2379") == 3, "settings, issuer, member"
    assert "http://leadsman-etcd" not in text
    assert "http://$(POD_NAME)" not in text


PARTS = {
    "agent": "leadsman-agent",
    "extender": "leadsman-extender",
    "controller": "leadsman-controller",
    "etcd": "leadsman-etcd",
    "etcdIssuer": "leadsman-etcd-issuer",
    "scheduler": "leadsman-scheduler",
}
"""Key in the values → its workload."""


@pytest.mark.parametrize("part", PARTS)
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
    enabled = ("controller.enabled=true", "scheduler.enabled=true")
    objects = template(*enabled, values={part: settings})
    (workload,) = [
        each for each in objects if each["metadata"]["name"] == PARTS[part] and "template" in each.get("spec", {})
    ]
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


def test_an_affinity_of_the_user_s_keeps_etcd_s_members_apart(template: Template) -> None:
    (member,) = [each for each in template("etcd.affinity.nodeAffinity.own=1") if each["kind"] == "StatefulSet"]
    assert {*member["spec"]["template"]["spec"]["affinity"]} == {"nodeAffinity", "podAntiAffinity"}


def test_monitors_carry_the_labels_that_prometheus_selects_by(template: Template) -> None:
    objects = template("serviceMonitor.enabled=true", "serviceMonitor.additionalLabels.release=kps")
    monitors = [each for each in objects if each["kind"] in ("PodMonitor", "ServiceMonitor")]
    assert len(monitors) == 5
    assert {each["metadata"]["labels"]["release"] for each in monitors} == {"kps"}


def test_rules_carry_the_labels_that_prometheus_selects_by(template: Template) -> None:
    objects = template("prometheusRule.enabled=true", "prometheusRule.additionalLabels.release=kps")
    (rules,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    assert rules["metadata"]["labels"]["release"] == "kps"


def test_alerts_link_to_the_runbooks_where_the_user_publishes_them(template: Template) -> None:
    objects = template(
        "prometheusRule.enabled=true", "prometheusRule.runbooksUrl=https://docs.example.com/runbooks.html"
    )
    (rules,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert {each["alert"]: each["annotations"]["runbook_url"] for each in alerts} == {
        each["alert"]: f"https://docs.example.com/runbooks.html#{each['alert'].lower()}" for each in alerts
    }


def test_an_etcd_of_the_user_s_replaces_ours(template: Template) -> None:
    objects = template("etcd.externalEndpoints={https://etcd-0.example:2399,https://etcd-1.example:2379}")
    assert not [each for each in objects if each["metadata"]["name"].startswith("leadsman-etcd")]
    (settings,) = [each for each in objects if each["metadata"]["name"] == "leadsman-settings"]
    assert settings["data"]["LEADSMAN_ETCD"] == "https://etcd-0.example:2399,https://etcd-1.example:2379"
    (agent,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("NetworkPolicy", "leadsman-agent")
    ]
    assert {port["port"] for rule in agent["spec"]["egress"] for port in rule.get("ports", [])} >= {2399, 2379}


def test_another_namespace_and_release_name_reach_every_object(helm: str) -> None:
    command = [helm, "template", "edge", str(CHART), "-n", "latency", "--set", ",".join(EVERY_SETTING)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert {each["metadata"].get("namespace") for each in objects} <= {
        None,
        "latency",
        "kube-node-lease",
        "kube-system",
        "leadsman-placeholders",
    }
    accounts = [subject for each in objects for subject in each.get("subjects", [])]
    assert {each["namespace"] for each in accounts} == {"latency"}
    assert {each["metadata"]["labels"]["app.kubernetes.io/instance"] for each in objects} == {"edge"}


def test_the_prometheus_of_telemetry_policies_is_reached_by_extenders_and_controllers(template: Template) -> None:
    sources = "agents,prometheus=http://prometheus.monitoring:8080/main"
    chosen = "telemetry.enabled=true,controller.enabled=true,controller.deviceHealth.enabled=true"
    escaped = sources.replace(",", r"\,")
    objects = template(chosen, f"telemetry.source={escaped}")
    (settings,) = [each for each in objects if each["metadata"]["name"] == "leadsman-settings"]
    assert settings["data"]["LEADSMAN_TELEMETRY"] == sources
    for name in ("leadsman-extender", "leadsman-controller"):
        (policy,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("NetworkPolicy", name)]
        ports = {each["ports"][0]["port"] for each in policy["spec"]["egress"] if "monitoring" in str(each)}
        assert ports == {8080}, name
    (controller,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", "leadsman-controller")]
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    assert f"--telemetry={sources}" in container["args"]


def test_objects_of_the_user_s_are_deployed_too(template: Template) -> None:
    manifest = 'extraManifests[0]=apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "{{ .Release.Name }}-own"}'
    assert [each for each in template(manifest) if each["metadata"]["name"] == "leadsman-own"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("agent.hostNetwrok=true", "hostNetwrok"),
        ("etcd.replicas=2", "/etcd/replicas"),
        ("logLevel=loud", "/logLevel"),
        ("certificates.mode=none", "/certificates/mode"),
        ("selfHealing.failover=maybe", "/selfHealing/failover"),
        ("telemetry.source=prometheus", "/telemetry/source"),
    ],
)
def test_a_value_that_it_does_not_take_is_named(setting: str, named: str, helm: str) -> None:
    done = run_template(helm, setting)
    assert done.returncode != 0
    assert named in done.stderr


NOTES_SETTINGS = (
    "",
    "certificates.mode=job",
    "certificates.mode=cert-manager",
    "extender.tlsSecret=other-tls",
    "scheduler.enabled=true",
)


@pytest.mark.parametrize("namespace", ["leadsman", "latency"])
@pytest.mark.parametrize("setting", NOTES_SETTINGS)
def test_the_commands_that_its_notes_print_are_for_this_release(setting: str, namespace: str, helm: str) -> None:
    done = subprocess.run(
        [helm, "install", "leadsman", str(CHART), "--namespace", namespace, "--dry-run=client", "--set", setting],
        capture_output=True,
        text=True,
        check=True,
    )
    notes = done.stdout.partition("\nNOTES:\n")[2]
    lines = [line.strip().partition(" | ")[0].split() for line in notes.splitlines() if line.startswith("     ")]
    ours = {
        words[1:3][-1]: vars(build_parser({}, words[1]).parse_args(words[1:]))
        for words in lines
        if words[0] == "leadsman"
    }
    assert f"is in the namespace {namespace}" in notes
    if "certificates.mode" not in setting:
        assert ours["create"]["namespace"] == ours["secrets"]["namespace"] == namespace
        assert (ours["secrets"]["scheduler_namespace"] == namespace) is (setting == "scheduler.enabled=true")
        assert (ours["secrets"]["server_secret"] == "other-tls") is (setting == "extender.tlsSecret=other-tls")
    if setting != "scheduler.enabled=true":
        (configure,) = [each for each in ours.values() if "extender" in each]
        assert configure["server_name"] in ("", f"leadsman-extender.{namespace}.svc")
        assert bool(configure["server_name"]) is (namespace != "leadsman")


def test_it_passes_helm_lint(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_package_holds_all_that_its_templates_read(helm: str, tmp_path: Path, template: Template) -> None:
    subprocess.run([helm, "package", str(CHART), "-d", str(tmp_path)], capture_output=True, check=True)
    (package,) = tmp_path.glob("leadsman-*.tgz")
    command = [helm, "template", "leadsman", str(package), "-n", "leadsman", "--set", "image.registry="]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [each for each in yaml.safe_load_all(done.stdout) if each] == template()


def test_its_version_is_that_of_setup_cfg() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (version,) = re.findall(r"^version = (.+)$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    assert chart["version"] == chart["appVersion"] == version
