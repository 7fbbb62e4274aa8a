"""The scheduler's configurations are one: written by hand, by `configure-scheduler`, and of the second scheduler.

Real kube-schedulers start with the last two: tests/leadsman/cli/configure, test_second_scheduler_on_kubernetes.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.cli.scheduler_files import ConfigureSettings, plan_changes

SYSTEMD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def extender(scheduler: dict[str, Any]) -> dict[str, Any]:
    (only,) = scheduler["extenders"]
    return only


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
