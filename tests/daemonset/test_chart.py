"""The Helm chart deploys what kustomize does, and says clearly what it does not take."""

import json
import re
import subprocess
from typing import Any

import pytest

from leadsman.cli.main import build_parser
from tests import kubernetes_schemas
from tests.daemonset.chart_readme import README, readme
from tests.daemonset.conftest import (
    BUILDS,
    CHART,
    EVERY_SETTING,
    MANIFESTS,
    PROFILES,
    SETTINGS_OF,
    Objects,
    Render,
    Template,
    documents,
)

pytestmark = pytest.mark.integration

GIVEN = "certificates.mode=given"
"""kustomize makes no certificates."""


def comparable(objects: Objects) -> dict[tuple[str, ...], dict[str, Any]]:
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
            each["data"] = {name: documents(text) for name, text in each["data"].items()}
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


@pytest.mark.parametrize("build", BUILDS)
def test_it_deploys_what_kustomize_does(build: str, template: Template, render: Render) -> None:
    ours = comparable(template(GIVEN, *(SETTINGS_OF[component] for component in BUILDS[build])))
    theirs = comparable([json.loads(json.dumps(each)) for each in render(build)])
    assert ours.keys() == theirs.keys()
    for name, each in theirs.items():
        assert ours[name] == each, name


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_the_same_in_kustomize_and_chart(profile: str, template: Template) -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(MANIFESTS / "profiles" / profile)], capture_output=True, text=True, check=True
    )
    theirs = comparable(documents(built.stdout))
    assert comparable(template(GIVEN, f"profile={profile}")) == theirs


def test_a_cluster_whose_tokens_name_no_node_is_refused(helm: str) -> None:
    command = [helm, "template", "leadsman", str(CHART), "--kube-version", "1.29"]
    assert "chart requires kubeVersion: >=1.30" in subprocess.run(command, capture_output=True, text=True).stderr


@pytest.mark.parametrize("version", ["1.30", "1.37"])
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
            kubernetes_schemas.validate(each, version)


@pytest.mark.parametrize("namespace", ["leadsman", "latency"])
@pytest.mark.parametrize(
    "setting", ["", "certificates.mode=given", "certificates.mode=cert-manager", "scheduler.enabled=true"]
)
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
    if "certificates.mode=given" in setting:
        assert ours["create"]["namespace"] == ours["secrets"]["namespace"] == namespace
    if setting != "scheduler.enabled=true":
        (configure,) = [each for each in ours.values() if "extender" in each]
        assert configure["server_name"] in ("", f"leadsman-extender.{namespace}.svc")
        assert bool(configure["server_name"]) is (namespace != "leadsman")


def test_its_readme_is_made_from_its_values() -> None:
    assert README.read_text() == readme(), "python -m tests.daemonset.chart_readme"


def test_it_passes_helm_lint(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
