"""The scheduler's configuration: fields that kube-scheduler knows, values with which our score can win.

Fields from k8s.io/kube-scheduler/config/v1/types.go and, for the two embedded structs,
k8s.io/component-base/config/v1alpha1/types.go, as of Kubernetes 1.37. kube-scheduler decodes strictly: an unknown
field stops it.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

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
SYSTEMD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def extender(scheduler: dict[str, Any]) -> dict[str, Any]:
    (only,) = scheduler["extenders"]
    return only


def test_every_field_is_known_and_of_its_type(scheduler: dict[str, Any], extender: dict[str, Any]) -> None:
    assert set(scheduler) <= TOP
    assert set(scheduler["clientConnection"]) <= CLIENT
    assert set(scheduler["leaderElection"]) <= LEADER
    assert {name: type(value) for name, value in extender.items()} == {name: EXTENDER[name] for name in extender}


def test_it_is_what_configure_scheduler_writes(scheduler: dict[str, Any], extender: dict[str, Any]) -> None:
    settings = ConfigureSettings(extender["urlPrefix"], extender["tlsConfig"]["serverName"])
    (change,) = plan_changes("f", SYSTEMD, lambda _: None, settings)
    assert yaml.safe_load(change.after)["extenders"] == [extender]
    assert yaml.safe_load(change.after)["percentageOfNodesToScore"] == scheduler["percentageOfNodesToScore"]


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
