"""examples/workloads: each file is read by the code that would read its pods, and says what its comments say."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml

from extender.wire.verbs import read_args
from leadsman.decision.delay.bounds import DelayBound, ReplicaMode, parse_bounds
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.kube.names import BACKUP_ANNOTATION
from leadsman.planning.backups.backup_plan import BackupScope

FOLDER = Path(__file__).parents[2] / "examples/workloads"


def workloads() -> dict[str, dict[str, Any]]:
    """Name → the object, of all files."""
    files = (yaml.safe_load_all(path.read_text()) for path in FOLDER.glob("*.yaml"))
    return {each["metadata"]["name"]: each for documents in files for each in documents}


def pod(name: str) -> PodInfo:
    """A pod of the workload, as kube-scheduler would send it."""
    template = workloads()[name]["spec"]["template"]
    metadata = {"name": f"{name}-0", "namespace": "default", "uid": "1", **template["metadata"]}
    return read_args(msgspec.json.encode({"Pod": {**template, "metadata": metadata}, "NodeNames": []})).pod


@pytest.mark.parametrize("name", sorted(workloads()))
def test_kubernetes_takes_it_and_leadsman_can_read_what_its_pods_ask(name: str) -> None:
    kubernetes_validate.validate(workloads()[name], "1.36", strict=True)
    asked = pod(name)
    assert asked.bad_demand == ""
    assert parse_bounds(asked) or asked.devices.memory_bytes


def test_bounds_are_to_a_node_and_to_the_nearest_pod_of_a_workload() -> None:
    assert [(bound.reference, bound.ms) for bound in parse_bounds(pod("cache"))] == [("edge-1", 25.0)]
    assert parse_bounds(pod("frontend")) == (
        DelayBound("deployment/cache", 5.0, ReplicaMode.NEAREST, None),
        DelayBound("node/edge-1", 40.0, ReplicaMode.ALL, EstimateMode.REJECT),
    )


def test_a_backup_is_outside_the_rack() -> None:
    asked = pod("controller-of-line-1")
    assert asked.annotations[BACKUP_ANNOTATION] == BackupScope.RACK


def test_replicas_are_spread_over_zones_and_near_every_pod_of_the_database() -> None:
    (spread,) = workloads()["api"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert parse_bounds(pod("api")) == (DelayBound("statefulset/db", 20.0, ReplicaMode.ALL, None),)


def test_a_part_of_a_card_and_bandwidth_are_asked() -> None:
    demand = pod("inference").devices
    assert (demand.memory_bytes, demand.bandwidth_bits) == (5 * 2**30, 2_000_000_000)
    assert demand.resources() == {"nvidia.com/gpu", "openshift.io/sriov_net"}
