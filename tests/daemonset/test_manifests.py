"""Every object is one that the API would take, and they fit together."""

import json
import re
from functools import cache
from typing import Any

import pytest

from leadsman.cli.extender import DRAIN_SECONDS
from leadsman.runtime.http_server import DRAIN_TIMEOUT_SECONDS
from leadsman.runtime.version import VERSION
from tests import kubernetes_schemas
from tests.daemonset.conftest import CHART, Find, Objects, builds_with
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
