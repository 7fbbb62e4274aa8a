"""Histories of usage from files and from a real Prometheus."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.kube.access import access_from_url
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.usage_history import BadHistory, parse_history, query_history
from tests.past_prometheus import needs_prometheus, prometheus_of

CSV = """time,workload,cpu,memory
1970-01-01T00:01:00Z,shop/deployment/web,250m,1Gi
0,shop/deployment/web,0.5,
0,shop/statefulset/db,,512Mi
"""


def test_lines_become_series_in_order_of_time() -> None:
    history = parse_history(CSV)
    web = history["shop/deployment/web"]
    assert (web["cpu"].times.tolist(), web["cpu"].values.tolist()) == ([0.0, 60.0], [500.0, 250.0])
    assert web["memory"].values.tolist() == [float(1 << 30)]
    assert list(history["shop/statefulset/db"]) == ["memory"]


def test_json_has_the_same_fields() -> None:
    [(workload, series)] = parse_history('[{"time": 5, "workload": "a/job/b", "cpu": 0.1, "memory": "2Mi"}]').items()
    assert (workload, series["cpu"].values.tolist(), series["memory"].values.tolist()) == (
        "a/job/b",
        [100.0],
        [2097152.0],
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: time, workload missing"),
        ("time,workload\n", "no sample"),
        ("time,workload,cpu\nyesterday,a/b/c,1\n", 'line 2: time "yesterday"; must be Unix seconds or RFC 3339'),
        ("time,workload,cpu\nnan,a/b/c,1\n", 'line 2: time "nan"'),
        ("time,workload,cpu\n1,web,1\n", 'line 2: workload "web"; must be namespace/kind/name'),
        ("time,workload,cpu\n1,a/b/c,much\n", "line 2: cpu: .*much"),
        ("time,workload,cpu\n1,a/b/c,-1\n", 'line 2: cpu: "-1"; must be 0 or more'),
        ('[{"time": 1}]', "must be a list of"),
    ],
)
def test_a_bad_history_is_refused_by_its_place(text: str, error: str) -> None:
    with pytest.raises(BadHistory, match=error):
        parse_history(text)


HOUR = 3600


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, float]]:
    """Its URL, and the end of 30 hours of one series."""
    now = time.time() // HOUR * HOUR
    labels = 'namespace="shop",workload="web",workload_type="deployment",pod="web-1"'
    samples = [f"used{{{labels}}} {0.25 + back} {int(now - back * HOUR)}" for back in range(30, 0, -1)]
    with prometheus_of(tmp_path / "prometheus", ["# TYPE used gauge", *samples]) as url:
        yield url, now


@pytest.mark.integration
@needs_prometheus
async def test_a_real_prometheus_gives_the_days_that_it_has(prometheus: tuple[str, float]) -> None:
    url, now = prometheus
    async with ApiClient(access_from_url(url, None, None)) as client:
        history = await query_history(client, {"cpu": "used"}, now, 2, float(HOUR))
    series = history["shop/deployment/web"]["cpu"]
    assert len(series.values) == 30
    assert series.values[-1] == 1250.0
    assert series.times[-1] - series.times[0] == 29 * HOUR
