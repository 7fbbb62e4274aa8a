"""Every object is one that the API would take, and they fit together."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.extender import DRAIN_SECONDS
from leadsman.cli.uninstall import PART_OF, PART_OF_LABEL
from leadsman.runtime.http_server import DRAIN_TIMEOUT_SECONDS
from leadsman.runtime.version import VERSION
from tests import kubernetes_schemas
from tests.daemonset.conftest import CHART, EXCLUDED, MANIFESTS, Find, Objects, Render, builds_with, documents
from tests.newer_etcd import VERSION as VERSION_OF_TESTS

LABELS = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")}
COMPONENT = "app.kubernetes.io/component"
SHARED = {"Namespace", "PriorityClass", "PrometheusRule"}
"""Kinds that belong to no one component; so do the settings that agent and extender share."""


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_every_object_is_valid_against_the_schemas_of(version: str, objects: Objects) -> None:
    for found in objects:
        if not found["apiVersion"].startswith("monitoring.coreos.com/"):
            validate(json.dumps(found), version)


@cache
def validate(document: str, version: str) -> None:
    """Once an object: most builds share most of theirs, and each takes a tenth of a second."""
    kubernetes_schemas.validate(json.loads(document), version)


def test_objects_carry_the_recommended_labels(objects: Objects) -> None:
    for found in objects:
        labels, name = found["metadata"]["labels"], found["metadata"]["name"]
        assert set(labels) >= LABELS, name
        assert labels["app.kubernetes.io/version"] == VERSION
        assert COMPONENT in labels or found["kind"] in SHARED or name.startswith("leadsman-settings"), name


def test_pods_and_claims_say_that_they_are_ours(workloads: Objects) -> None:
    """Whatever their name is in the chart: by this the command line finds them. A claim's template cannot change."""
    for each in (workload["spec"] for workload in workloads):
        assert each["template"]["metadata"]["labels"][PART_OF_LABEL] == PART_OF
        for claim in each.get("volumeClaimTemplates", []):
            assert claim["metadata"]["labels"] == {PART_OF_LABEL: PART_OF}


def test_selectors_match_their_own_pods_only_and_hold_nothing_that_changes(
    objects: Objects, workloads: Objects
) -> None:
    pods = [w["spec"]["template"]["metadata"]["labels"] for w in workloads]
    for found in objects:
        selector = selects(found)
        if selector:
            assert [pod for pod in pods if selector.items() <= pod.items()] == [
                pod for pod in pods if pod[COMPONENT] == found["metadata"]["labels"][COMPONENT]
            ]
            assert "app.kubernetes.io/version" not in selector


def test_etcd_is_the_version_that_tests_run(workloads: Objects) -> None:
    (member,) = [each for each in workloads if each["metadata"]["name"] == "leadsman-etcd"]
    (etcd,) = member["spec"]["template"]["spec"]["containers"]
    assert etcd["image"].endswith(f":v{VERSION_OF_TESTS}")
    assert f"tag: v{VERSION_OF_TESTS}" in (CHART / "values.yaml").read_text()


def test_the_agent_runs_everywhere_and_is_replaced_before_a_new_one_starts(find: Find) -> None:
    spec = find("DaemonSet", "leadsman-agent")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%", "maxSurge": 0}
    assert spec["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_the_extender_survives_the_loss_of_a_pod(find: Find) -> None:
    extender = find("Deployment", "leadsman-extender")
    assert extender["spec"]["replicas"] > 1
    (spread,) = extender["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == extender["spec"]["selector"]
    assert (spread["topologyKey"], spread["matchLabelKeys"]) == ("kubernetes.io/hostname", ["pod-template-hash"])


def test_two_controllers_never_share_a_node_and_an_update_needs_no_third(find: Find, build_name: str) -> None:
    """On one node both would die with it, and nothing would be done about its death."""
    if build_name not in builds_with("controller"):
        return
    controller = find("Deployment", "leadsman-controller")["spec"]
    (rule,) = controller["template"]["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert (controller["replicas"], rule["topologyKey"]) == (2, "kubernetes.io/hostname")
    assert rule["labelSelector"] == controller["selector"]
    assert controller["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_the_extender_has_time_to_drain_after_its_hook(find: Find) -> None:
    pod = find("Deployment", "leadsman-extender")["spec"]["template"]["spec"]
    (extender,) = pod["containers"]
    program, hook_seconds = extender["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    margin = pod["terminationGracePeriodSeconds"] - (int(hook_seconds) + DRAIN_SECONDS + DRAIN_TIMEOUT_SECONDS)
    assert margin >= 10


def test_a_drain_takes_one_replica_at_a_time_and_is_never_refused_the_only_one(
    objects: Objects, workloads: Objects
) -> None:
    """With `minAvailable: 1` the drain of a node with the only replica would never end."""
    replicated = {each["metadata"]["name"] for each in workloads if each["spec"].get("replicas", 1) > 1}
    budgets = {each["metadata"]["name"]: each for each in objects if each["kind"] == "PodDisruptionBudget"}
    assert replicated <= budgets.keys()
    for name in replicated:
        assert budgets[name]["spec"]["maxUnavailable"] == 1


def test_every_reference_in_an_argument_is_a_variable_of_the_container(workloads: Objects) -> None:
    """Kubernetes leaves an unknown $(NAME) as it stands."""
    for workload in workloads:
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        used = set(re.findall(r"\$\((\w+)\)", " ".join(container["args"])))
        assert used <= {variable["name"] for variable in container.get("env", [])}


def test_every_mount_has_its_volume_or_its_claim_and_not_both(workloads: Objects) -> None:
    for workload in workloads:
        pod = workload["spec"]["template"]["spec"]
        volumes = [v["name"] for v in pod.get("volumes", [])]
        volumes += [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        containers = [*pod["containers"], *pod.get("initContainers", [])]
        assert len(volumes) == len(set(volumes))
        assert {m["name"] for c in containers for m in c.get("volumeMounts", [])} == set(volumes)


def selects(found: dict[str, Any]) -> dict[str, Any]:
    """The labels that a Service, a workload, a budget, a NetworkPolicy or a monitor selects pods by; {} for others."""
    spec = found.get("spec", {})
    selector = spec.get("podSelector") or spec.get("selector") or {}
    # Placeholders, which no workload of these files makes, are selected by expression.
    return selector.get("matchLabels", {} if "matchExpressions" in selector else selector)


# The overlay as docs/deploying.md has users edit it.


@pytest.mark.integration
def test_the_overlay_with_every_component_builds_what_base_and_components_do(render: Render, tmp_path: Path) -> None:
    everything = render("everything")
    shutil.copytree(MANIFESTS, tmp_path / "daemonset")
    overlay = tmp_path / "daemonset/overlay/kustomization.yaml"
    chosen = [line for line in overlay.read_text().splitlines() if not line.endswith(tuple(EXCLUDED))]
    text = "\n".join(chosen).replace("# - ../components/", "- ../components/")
    overlay.write_text(text.replace("../profiles/bounds", "../profiles/self-healing"))
    done = subprocess.run(["kubectl", "kustomize", str(overlay.parent)], capture_output=True, text=True, check=True)
    built = done.stdout.replace("registry.example.com/leadsman", "leadsman")
    assert sorted(documents(built), key=str) == sorted(everything, key=str)


# One port number, wherever it is named.

LISTEN = {
    "--listen": {"agent": "metrics", "controller": "metrics", "extender": "https", "member": "https"},
    "--ops-listen": {"extender": "ops", "member": "ops"},
}
MONITORS = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
"""Kind → its list of endpoints, in monitoring.coreos.com/v1."""
OPTIONAL = {"controller": {"metrics": 9003}}
"""Components that monitors name whether they are chosen or not."""


def containers(workloads: Objects) -> Objects:
    specs = [w["spec"]["template"]["spec"] for w in workloads]
    return [each for spec in specs for each in (*spec.get("initContainers", ()), spec["containers"][0])]


def ports(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_ours_listen_on_the_ports_they_declare(workloads: Objects) -> None:
    for container in (c for c in containers(workloads) if c["image"].startswith("leadsman")):
        given = dict(argument.partition("=")[::2] for argument in container["args"])
        listens = {names[container["name"]]: given[flag] for flag, names in LISTEN.items() if flag in given}
        assert listens == {name: f"0.0.0.0:{number}" for name, number in ports(container).items()}


def test_probes_ask_a_declared_port_that_is_not_the_scheduler_s(workloads: Objects) -> None:
    for container in containers(workloads):
        asked = {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")}
        ports_asked = {"extender": "ops", "member": "ops", "scheduler": "https"}
        assert asked == {ports_asked.get(container["name"], "metrics")}
        assert asked <= set(ports(container))


def test_services_lead_to_declared_ports_under_the_same_number(objects: Objects, workloads: Objects) -> None:
    behind = declared_ports(workloads)
    for service in (o for o in objects if o["kind"] == "Service"):
        declared = behind[service["metadata"]["labels"]["app.kubernetes.io/component"]]
        for port in service["spec"]["ports"]:
            assert declared[port["targetPort"]] == port["port"]


def test_monitors_scrape_declared_ports(objects: Objects, workloads: Objects) -> None:
    behind = declared_ports(workloads)
    monitors = [o for o in objects if o["kind"] in MONITORS]
    monitored = {m["metadata"]["labels"]["app.kubernetes.io/component"] for m in monitors}
    assert not monitors or monitored >= behind.keys() - {"scheduler"}, "kube-scheduler wants a token for its metrics"
    for monitor in monitors:
        component = monitor["metadata"]["labels"]["app.kubernetes.io/component"]
        declared = {**OPTIONAL, **behind}[component]
        assert set(monitor["spec"]) == {"selector", MONITORS[monitor["kind"]]}
        for endpoint in monitor["spec"][MONITORS[monitor["kind"]]]:
            assert endpoint["port"] in declared
            assert endpoint["path"] == "/metrics"


def declared_ports(workloads: Objects) -> dict[str, dict[str, int]]:
    """Component → name → number."""
    return {
        w["metadata"]["labels"]["app.kubernetes.io/component"]: {
            name: number for container in containers([w]) for name, number in ports(container).items()
        }
        for w in workloads
    }
