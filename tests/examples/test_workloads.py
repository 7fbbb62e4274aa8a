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
