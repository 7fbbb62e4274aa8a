"""examples/workloads: each file is read by the code that would read its pods, and says what its comments say."""

import importlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from extender.wire.verbs import read_args
from leadsman.decision.delay.bounds import DelayBound, ReplicaMode, parse_bounds
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.decision.telemetry.taspolicy import STRATEGY_NAMES, parse_taspolicy
from leadsman.plugin import Node, Pod
from leadsman.plugin_loading import METHOD_OF_GROUP
from leadsman.sources.telemetry.polling import parse_queries
from leadsman.state import metric_names
from leadsman.state.metric_names import MEMORY_ERRORS
from tests import kubernetes_schemas

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
    kubernetes_schemas.validate(workloads()[name], "1.36")
    asked = pod(name)
    assert asked.bad_demand == ""
    assert parse_bounds(asked) or asked.devices.memory_bytes


def test_bounds_are_to_a_node_and_to_the_nearest_pod_of_a_workload() -> None:
    assert [(bound.reference, bound.ms) for bound in parse_bounds(pod("cache"))] == [("edge-1", 25.0)]
    assert parse_bounds(pod("frontend")) == (
        DelayBound("deployment/cache", 5.0, ReplicaMode.NEAREST, None),
        DelayBound("node/edge-1", 40.0, ReplicaMode.ALL, EstimateMode.REJECT),
    )


# The examples of plugins: each is small and does what it says, and there is one of each kind.

FILES = sorted((Path(__file__).parents[2] / "examples/plugins").glob("*.py"))


def test_there_is_one_of_each_kind_of_at_most_40_lines() -> None:
    texts = [file.read_text() for file in FILES]
    assert [text for text in texts if len(text.splitlines()) > 40] == []
    kinds = {group for group in METHOD_OF_GROUP for text in texts if f'entry-points."{group}"' in text}
    assert kinds == {*METHOD_OF_GROUP}


def test_a_filter_refuses_critical_pods_where_memory_had_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are shown by a whole package of them, in tests/whole/test_plugins.py."""
    monkeypatch.syspath_prepend(FILES[0].parent)
    ecc = importlib.import_module("ecc").Ecc()
    nodes = [Node(name, True, hardware={MEMORY_ERRORS: errors}) for name, errors in (("good", 0.0), ("bad", 3.0))]
    assert ecc.refuse(Pod("shop", "web", {"tier": "critical"}), [*nodes, Node("silent")]).keys() == {"bad"}
    assert ecc.refuse(Pod("shop", "web"), nodes) == {}


# examples/telemetry: policies, metrics and queries, as the extender reads them.

TELEMETRY = Path(__file__).parents[2] / "examples/telemetry"
POLICIES = sorted((TELEMETRY / "policies").iterdir())


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_has_no_problem(path: Path) -> None:
    assert parse_taspolicy(yaml.safe_load(path.read_text())).problems == ()


def test_together_they_show_every_strategy_and_queries_are_theirs_and_of_metrics_of_the_agents() -> None:
    strategies = [yaml.safe_load(path.read_text())["spec"]["strategies"] for path in POLICIES]
    assert {name for each in strategies for name in each} == set(STRATEGY_NAMES)
    ruled = {rule["metricname"] for each in strategies for one in each.values() for rule in one["rules"]}
    assert ruled <= {value for name, value in vars(metric_names).items() if name.isupper()}
    assert set(parse_queries((TELEMETRY / "queries.yaml").read_text(), "queries.yaml").queries) == ruled
