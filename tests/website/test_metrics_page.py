"""The reference of metrics has every family of the code, as tests/whole sees the processes show them."""

import ast
from pathlib import Path

import pytest

from website.metrics_page import PROCESSES, ROOT, Family, metric_families

ROOMS = ("agent", "extender", "controller", "leadsman")


@pytest.fixture(scope="module")
def families() -> dict[str, Family]:
    return {each.name: each for each in metric_families()}


def test_a_name_stands_for_one_family(families: dict[str, Family]) -> None:
    assert len(families) == len(metric_families()) > 200


def test_type_unit_and_labels_are_those_of_the_code(families: dict[str, Family]) -> None:
    assert families["leadsman_apiserver_errors_total"].labels == ("resource", "error")
    requests = families["leadsman_extender_request_duration_seconds"]
    assert (requests.kind, requests.unit, requests.labels) == ("histogram", "seconds", ("verb", "code"))
    assert "leadsman_extender_request_duration_seconds_bucket" in requests.series
    assert families["leadsman_extender_last_request_timestamp_seconds"].unit == "Unix seconds"


def test_every_file_that_makes_families_is_below_a_room_of_known_processes() -> None:
    makers = {
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "prometheus_client" in path.read_text() and makes_families(path)
    }
    assert makers
    assert {path for path in makers if not any(Path(path).is_relative_to(room) for room in PROCESSES)} == set()


def makes_families(path: Path) -> bool:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id.endswith("MetricFamily") for call in calls)
