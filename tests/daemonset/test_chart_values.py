"""What users set in the chart arrives where they mean it."""

import pytest

from tests.daemonset.conftest import Template, objects_named, run_template

pytestmark = pytest.mark.integration


PARTS = {
    "agent": "leadsman-agent",
    "extender": "leadsman-extender",
    "controller": "leadsman-controller",
    "etcd": "leadsman-etcd",
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
    enabled = ("profile=controller", "scheduler.enabled=true")
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
    accounts = [each for each in objects if each["kind"] == "ServiceAccount" and "helm.sh/hook" not in str(each)]
    assert {each["metadata"]["annotations"]["role"] for each in accounts} == {"arn"}


def test_the_prometheus_of_telemetry_policies_is_reached_by_extenders_and_controllers(template: Template) -> None:
    sources = "agents,prometheus=http://prometheus.monitoring:8080/main"
    chosen = "telemetry.enabled=true,profile=controller,controller.deviceHealth.enabled=true"
    escaped = sources.replace(",", r"\,")
    objects = template(chosen, f"telemetry.source={escaped}")
    (settings,) = [each for each in objects if each["metadata"]["name"] == "leadsman-settings"]
    assert settings["data"]["LEADSMAN_TELEMETRY"] == sources
    for name in ("leadsman-extender", "leadsman-controller"):
        (policy,) = objects_named(objects, "NetworkPolicy", name)
        ports = {each["ports"][0]["port"] for each in policy["spec"]["egress"] if "monitoring" in str(each)}
        assert ports == {8080}, name
    (controller,) = objects_named(objects, "Deployment", "leadsman-controller")
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    assert f"--telemetry={sources}" in container["args"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("agent.hostNetwrok=true", "hostNetwrok"),
        ("etcd.replicas=2", "/etcd/replicas"),
        ("logLevel=loud", "/logLevel"),
        ("certificates.mode=none", "/certificates/mode"),
        ("profile=all", "/profile"),
        ("telemetry.source=prometheus", "/telemetry/source"),
    ],
)
def test_a_value_that_it_does_not_take_is_named(setting: str, named: str, helm: str) -> None:
    done = run_template(helm, setting)
    assert done.returncode != 0
    assert named in done.stderr
