"""A real Prometheus with our rules scrapes agents and extender: it takes their pages and every query of the dashboards,
tells policies its metrics, and promtool objects to nothing."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.polling import MetricUnavailable, PrometheusQueries, PrometheusSource
from leadsman.testbed.etcd import free_ports
from tests.daemonset.conftest import DASHBOARDS, MANIFESTS, panels_of
from tests.leadsman_process import LeadsmanProcess
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

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


MEMORY = "leadsman_memory_available_bytes"
QUERIES = PrometheusQueries(
    "instance",
    {
        "free_share": f"{MEMORY} / leadsman_memory_total_bytes",
        "one": "1",
        "bad": "sum(",
        "collectors": "leadsman_collector_success",
    },
)


@contextmanager
def scraping(agents: Mapping[str, LeadsmanProcess], extender: LeadsmanProcess, folder: Path) -> Iterator[str]:
    """The URL of a Prometheus that scrapes these. agents: by node."""

    def target(process: LeadsmanProcess, **labels: str) -> dict[str, Any]:
        return {"targets": [process.ops_url.removeprefix("http://")], "labels": labels}

    jobs = {"agent": [target(one, node=node) for node, one in agents.items()], "extender": [target(extender)]}
    rules = yaml.safe_load((MANIFESTS / "components/prometheus/rules.yaml").read_text())["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": f"leadsman-{job}", "static_configs": found} for job, found in jobs.items()],
    }
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(settings))
    port = free_ports(1)[0]
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        child = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        child.terminate()
        child.wait(60)


def query(prometheus: str, expression: str) -> dict[str, Any]:
    """Prometheus' answer, also when it refuses the query; "starting" while it does not answer."""
    as_grafana_sends_it = expression.replace("$__rate_interval", "30s").replace("$node", "edge-1")
    try:
        with urlopen(f"{prometheus}/api/v1/query?query={quote(as_grafana_sends_it)}", timeout=30) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        return dict(json.load(error)) if error.code != 503 else {"status": "starting"}
    except OSError:
        return {"status": "starting"}


def values(prometheus: str, expression: str) -> list[Any]:
    return list(query(prometheus, expression).get("data", {}).get("result", []))


async def test_every_page_and_query_is_taken_policies_get_metrics_by_node_and_a_node_that_left_is_forgotten(
    agent: Start, start: Start, tmp_path: Path
) -> None:
    agents, extender = {"edge-1": agent("edge-1", 1), "edge-2": agent("edge-2", 2)}, start("extender")
    until(lambda: extender.fresh() == agents.keys(), "both nodes fresh in the extender")
    extender.ask("filter", ["edge-1"], {})
    for process in (*agents.values(), extender):
        assert objections(process.get("/metrics")[1]) == ""
    with scraping(agents, extender, tmp_path) as prometheus:
        assert_takes_the_dashboards(prometheus)
        rtts = "sum by (peer) (leadsman_peer_rtt_p50_seconds)"
        peers = lambda: {row["metric"]["peer"] for row in values(prometheus, rtts)}  # noqa: E731
        until(lambda: peers() == agents.keys(), "RTTs", PATIENCE_SECONDS)
        until(lambda: len(values(prometheus, MEMORY)) == 2, "both agents scraped", PATIENCE_SECONDS)
        async with ApiClient(ApiAccess(prometheus)) as client:
            await assert_tells_policies(PrometheusSource(client, QUERIES))
        agents["edge-2"].stop()
        until(lambda: "edge-2" not in peers(), "edge-2's series gone", PATIENCE_SECONDS)


def assert_takes_the_dashboards(prometheus: str) -> None:
    """It refuses no query of theirs and no rule, and the panels that need no traffic show something."""
    panels = [panel for path in DASHBOARDS for panel in panels_of(path)]
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


def objections(page: str) -> str:
    """What promtool says of a page of metrics."""
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    return checked.stdout + checked.stderr


async def assert_tells_policies(source: PrometheusSource) -> None:
    """Metrics and queries by node; what gives no value a node says why."""
    by_name, by_query = await source.query(MEMORY), await source.query("free_share")
    assert by_name.keys() == by_query.keys() == {"127.0.3.1", "127.0.3.2"}
    assert all(sample.nanos > 10**6 * 10**9 for sample in by_name.values())
    assert all(0 < sample.nanos < 10**9 for sample in by_query.values())
    assert await source.query("no_such_metric") == {}
    for metric, why in (
        ("one", "returned scalar"),
        ("bad", "Invalid.*400"),
        ("collectors", "is the only one of a node"),
    ):
        with pytest.raises(MetricUnavailable, match=why):
            await source.query(metric)
