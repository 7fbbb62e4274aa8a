"""A real Prometheus, with our rules, scrapes real processes and is asked every query of the dashboards."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from leadsman.testbed.etcd import free_ports
from tests.daemonset.conftest import ROOT
from tests.dashboard_panels import FOLDER, panels_of

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus"),
]
PATIENCE_SECONDS = 90
NEED_NO_TRAFFIC = (
    "Fresh nodes",
    "Newest report",
    "Nodes by freshness",
    "Memory",
    "CPU",
    "Round trips, p50",
    "Round trips, median",
    "Farthest nodes: median to ring peers",
    "Lost probes, all nodes",
    "Peers under probe",
)
"""Panels that show something as soon as two agents and an extender run; the others need pods, policies or faults."""


@pytest.fixture
def prometheus(agent: "Start", start: "Start", tmp_path: Path) -> Iterator[str]:
    nodes = {"edge-1": agent("edge-1", 1), "edge-2": agent("edge-2", 2)}
    agents = [{"targets": [_target(process)], "labels": {"node": node}} for node, process in nodes.items()]
    jobs = {"leadsman-agent": agents, "leadsman-extender": [{"targets": [_target(start("extender"))]}]}
    rules = yaml.safe_load((ROOT / "daemonset/components/prometheus/rules.yaml").read_text())["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(tmp_path / "rules.yaml")],
        "scrape_configs": [{"job_name": job, "static_configs": found} for job, found in jobs.items()],
    }
    config = tmp_path / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings))
    port = free_ports(1)[0]
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        child = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}"
    child.terminate()
    child.wait(60)


def _target(process: "LeadsmanProcess") -> str:
    return process.ops_url.removeprefix("http://")


def as_grafana_sends_it(expression: str) -> str:
    return expression.replace("$__rate_interval", "30s").replace("$node", "edge-1")


def query(prometheus: str, expression: str) -> dict[str, Any]:
    """Prometheus' answer, also when it refuses the query; "starting" while it does not answer."""
    try:
        with urlopen(f"{prometheus}/api/v1/query?query={quote(as_grafana_sends_it(expression))}", timeout=30) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        return dict(json.load(error)) if error.code != 503 else {"status": "starting"}
    except OSError:
        return {"status": "starting"}


def values(prometheus: str, expression: str) -> list[Any]:
    return list(query(prometheus, expression).get("data", {}).get("result", []))


def test_prometheus_takes_every_query_and_those_that_need_no_traffic_show_something(
    prometheus: str, until: "Until"
) -> None:
    panels = [panel for path in sorted(FOLDER.glob("*.json")) for panel in panels_of(path)]
    until(lambda: query(prometheus, "1")["status"] == "success", "Prometheus answers", PATIENCE_SECONDS)
    refused = {
        title: answer.get("error")
        for title, queries in panels
        for expression in queries
        if (answer := query(prometheus, expression))["status"] != "success"
    }
    assert refused == {}
    shown = {title: queries for title, queries in panels if title in NEED_NO_TRAFFIC}
    assert shown.keys() == set(NEED_NO_TRAFFIC)
    for title, queries in shown.items():
        for expression in queries:
            until(lambda expression=expression: values(prometheus, expression), title, PATIENCE_SECONDS)
    rules = json.loads(urlopen(f"{prometheus}/api/v1/rules", timeout=30).read())["data"]["groups"]
    unwell = {rule["name"]: rule["lastError"] for group in rules for rule in group["rules"] if rule.get("lastError")}
    assert unwell == {}
    recorded = until(lambda: values(prometheus, "leadsman:node_rtt_seconds:median"), "recorded", PATIENCE_SECONDS)
    assert {row["metric"]["node"] for row in recorded} <= {"edge-1", "edge-2"}
    assert values(prometheus, 'ALERTS{alertname="LeadsmanAgentDown",alertstate="firing"}') == []
