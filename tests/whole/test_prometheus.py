"""A real Prometheus scrapes agents and extender, and tells policies its metrics; promtool objects to nothing."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.polling import MetricUnavailable, PrometheusQueries, PrometheusSource
from leadsman.testbed.etcd import free_ports

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Fresh, Start, Until

pytestmark = pytest.mark.integration
PATIENCE_SECONDS = 40


@pytest.fixture
def cluster(agent: "Start", start: "Start", until: "Until", fresh: "Fresh") -> list["LeadsmanProcess"]:
    processes = [agent("edge-1", 1), agent("edge-2", 2), start("extender")]
    until(lambda: fresh(processes[-1]) == {"edge-1", "edge-2"}, "both nodes fresh in the extender")
    return processes


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
def test_promtool_has_no_objection_to_any_process(cluster: list["LeadsmanProcess"]) -> None:
    for process in cluster:
        text = process.get("/metrics")[1]
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.fixture
def prometheus(cluster: list["LeadsmanProcess"], tmp_path: Path) -> Iterator[str]:
    targets = json.dumps([process.ops_url.removeprefix("http://") for process in cluster])
    config = tmp_path / "prometheus.yml"
    job = f"- job_name: leadsman\n  static_configs:\n  - targets: {targets}\n"
    config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n{job}")
    port = free_ports(1)[0]
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    with (tmp_path / "prometheus.log").open("wb") as log:
        child = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    yield f"http://127.0.0.1:{port}"
    child.terminate()
    child.wait(20)


def query(prometheus: str, expression: str) -> dict[tuple, float]:
    """Label values but the instance → value; empty while Prometheus starts."""
    try:
        with urlopen(f"{prometheus}/api/v1/query?query={quote(expression)}", timeout=5) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return {}
    return {tuple(sorted(row["metric"].values())): float(row["value"][1]) for row in found}


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus")
def test_prometheus_scrapes_agents_and_extender(prometheus: str, until: "Until") -> None:
    until(lambda: sum(query(prometheus, 'up{job="leadsman"}').values()) == 3, "three targets up", PATIENCE_SECONDS)
    rtts = until(lambda: query(prometheus, "sum by (peer) (leadsman_peer_rtt_p50_seconds)"), "RTTs", PATIENCE_SECONDS)
    assert rtts.keys() == {("edge-1",), ("edge-2",)}
    assert all(0 < seconds < 0.05 for seconds in rtts.values())
    memory = query(prometheus, "leadsman_memory_available_bytes")
    assert len(memory) == 2
    assert all(value > 1e6 for value in memory.values())
    assert query(prometheus, 'leadsman_state_nodes{freshness="fresh"}') != {}
    rate = "sum(rate(leadsman_rtt_seconds_count[10s]))"
    until(lambda: sum(query(prometheus, rate).values()) > 0, "a growing histogram", PATIENCE_SECONDS)


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus")
def test_a_node_that_left_is_gone_from_the_series_of_the_others(
    prometheus: str, cluster: list["LeadsmanProcess"], until: "Until"
) -> None:
    seen = "sum by (peer) (leadsman_peer_rtt_p50_seconds)"
    until(lambda: ("edge-2",) in query(prometheus, seen), "edge-2 as a peer", PATIENCE_SECONDS)
    cluster[1].stop()
    until(lambda: ("edge-2",) not in query(prometheus, seen), "edge-2's series gone", PATIENCE_SECONDS)


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


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus: apt-get install prometheus")
async def test_policies_read_metrics_and_queries_from_it_by_node(prometheus: str, until: "Until") -> None:
    until(lambda: len(query(prometheus, MEMORY)) == 2, "both agents scraped", PATIENCE_SECONDS)
    async with ApiClient(ApiAccess(prometheus)) as client:
        source = PrometheusSource(client, QUERIES)
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
