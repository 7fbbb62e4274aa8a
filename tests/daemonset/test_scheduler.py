"""The scheduler's configuration: fields that kube-scheduler knows, values with which our score can win.

Fields from k8s.io/kube-scheduler/config/v1/types.go and, for the two embedded structs,
k8s.io/component-base/config/v1alpha1/types.go, as of Kubernetes 1.37. kube-scheduler decodes strictly: an unknown
field stops it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.cli.certs import default_server_names
from leadsman.cli.scheduler_files import ConfigureSettings, plan_changes

TOP = {
    "apiVersion",
    "kind",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
}
EXTENDER = {
    "urlPrefix": str,
    "filterVerb": str,
    "preemptVerb": str,
    "prioritizeVerb": str,
    "weight": int,
    "bindVerb": str,
    "enableHTTPS": bool,
    "tlsConfig": dict,
    "httpTimeout": str,
    "nodeCacheCapable": bool,
    "managedResources": list,
    "ignorable": bool,
}
CLIENT = {"kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"}
LEADER = {
    "leaderElect",
    "leaseDuration",
    "renewDeadline",
    "retryPeriod",
    "resourceLock",
    "resourceName",
    "resourceNamespace",
}
BUILT_IN_TOTAL = 473
"""The built-in plugins' total for an empty node, seen on kube-scheduler 1.36.2."""


SYSTEMD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def extender(scheduler: dict[str, Any]) -> dict[str, Any]:
    (only,) = scheduler["extenders"]
    return only


def test_it_is_the_stable_configuration(scheduler: dict[str, Any]) -> None:
    assert scheduler["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert scheduler["kind"] == "KubeSchedulerConfiguration"


def test_every_field_is_known_and_of_its_type(scheduler: dict[str, Any], extender: dict[str, Any]) -> None:
    assert set(scheduler) <= TOP
    assert set(scheduler["clientConnection"]) <= CLIENT
    assert set(scheduler["leaderElection"]) <= LEADER
    assert {name: type(value) for name, value in extender.items()} == {name: EXTENDER[name] for name in extender}


def test_all_three_verbs_are_served(extender: dict[str, Any]) -> None:
    """Who refuses nodes must also answer preempt, or pods are evicted from nodes that we refuse."""
    assert [extender[verb] for verb in ("filterVerb", "prioritizeVerb", "preemptVerb")] == [
        "filter",
        "prioritize",
        "preempt",
    ]


def test_nobody_s_scheduling_depends_on_us(extender: dict[str, Any]) -> None:
    assert extender["ignorable"] is True
    assert "bindVerb" not in extender
    assert "managedResources" not in extender


def test_all_nodes_are_offered_and_by_name(scheduler: dict[str, Any], extender: dict[str, Any]) -> None:
    assert scheduler["percentageOfNodesToScore"] == 100
    assert extender["nodeCacheCapable"] is True


def test_the_best_of_our_scores_outbids_the_built_in_total(extender: dict[str, Any]) -> None:
    best, scale = 10, 10
    assert best * extender["weight"] * scale > BUILT_IN_TOTAL
    assert best * (extender["weight"] - 1) * scale < BUILT_IN_TOTAL


def test_a_lost_extender_costs_a_pod_at_most_two_seconds(extender: dict[str, Any]) -> None:
    milliseconds = re.fullmatch(r"(\d+)ms", extender["httpTimeout"])
    assert milliseconds
    assert 300 <= int(milliseconds[1]) <= 1000


def test_tls_is_mutual_and_verified(extender: dict[str, Any]) -> None:
    """enableHTTPS without a caFile verifies nothing."""
    assert extender["enableHTTPS"] is True
    assert extender["urlPrefix"].startswith("https://")
    assert set(extender["tlsConfig"]) == {"serverName", "caFile", "certFile", "keyFile"}


def test_the_extender_s_certificate_says_the_name_that_is_asked_for(extender: dict[str, Any]) -> None:
    assert extender["tlsConfig"]["serverName"] in default_server_names("leadsman")


def test_it_is_what_configure_scheduler_writes(scheduler: dict[str, Any], extender: dict[str, Any]) -> None:
    settings = ConfigureSettings(extender["urlPrefix"], extender["tlsConfig"]["serverName"])
    (change,) = plan_changes("f", SYSTEMD, lambda _: None, settings)
    assert yaml.safe_load(change.after)["extenders"] == [extender]
    assert yaml.safe_load(change.after)["percentageOfNodesToScore"] == scheduler["percentageOfNodesToScore"]


def test_the_scheduler_still_finds_the_api_server_and_its_peers(scheduler: dict[str, Any]) -> None:
    """With --config, kube-scheduler ignores --kubeconfig."""
    assert scheduler["clientConnection"]["kubeconfig"]
    assert scheduler["leaderElection"]["leaderElect"] is True


def test_the_second_scheduler_asks_as_the_first_does_but_binds_nothing_unasked(
    root: Path, scheduler: dict[str, Any], extender: dict[str, Any]
) -> None:
    second = yaml.safe_load((root / "daemonset/components/second-scheduler/scheduler.yaml").read_text())
    assert second["extenders"] == [{**extender, "ignorable": False}]
    assert second["percentageOfNodesToScore"] == scheduler["percentageOfNodesToScore"]
    assert second["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": "leadsman",
        "resourceName": "leadsman-scheduler",
    }


PAGE = Path(__file__).parents[2] / "docs/second-scheduler.md"
ROWS = re.findall(r"^\| (k3s|RKE2|MicroK8s) \| `(\S+)` \| `(\S+)` \|", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("distribution", "folder", "kubeconfig"), ROWS)
def test_the_lines_for_distributions_that_take_a_file_make_it_with_their_paths(
    distribution: str, folder: str, kubeconfig: str, tmp_path: Path, extender: dict[str, Any]
) -> None:
    page = PAGE.read_text().partition("### k3s, RKE2, MicroK8s")[2]
    on_your_machine, k3s, rke2, microk8s = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[:4]
    row = f"folder={folder} kubeconfig={kubeconfig}\n"
    made = re.sub("^node=NODE .*\n", row, on_your_machine.partition("ssh ")[0])
    assert row in made
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cluster_ip = "kubectl() { echo 10.96.0.7; }\n"
    subprocess.run(["sh", "-ec", cluster_ip + made], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    written = yaml.safe_load((tmp_path / "scheduler.yaml").read_text())
    tls = {key: str(value).replace("/etc/kubernetes/leadsman", folder) for key, value in extender["tlsConfig"].items()}
    assert written["clientConnection"]["kubeconfig"] == kubeconfig
    assert written["extenders"] == [{**extender, "tlsConfig": tls, "urlPrefix": "https://10.96.0.7:9001"}]
    on_the_node = {"k3s": k3s, "RKE2": rke2, "MicroK8s": microk8s}[distribution]
    assert f"config={folder}/scheduler.yaml" in on_the_node


def test_the_lines_for_talos_are_the_file_s_with_paths_of_its_own(extender: dict[str, Any]) -> None:
    page = PAGE.read_text().partition("### Talos")[2]
    patch = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])["cluster"]["scheduler"]
    (volume,) = patch["extraVolumes"]
    tls = {
        key: str(value).replace("/etc/kubernetes/leadsman", volume["mountPath"])
        for key, value in extender["tlsConfig"].items()
    }
    own = {"tlsConfig": tls, "urlPrefix": "https://CLUSTER-IP:9001"}
    assert patch["config"] == {"percentageOfNodesToScore": 100, "extenders": [{**extender, **own}]}
