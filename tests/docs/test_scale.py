"""docs/scale.md states the agents' rhythm as the code computes it."""

import re
from pathlib import Path

import pytest

from agent.peering import probe_rate
from leadsman.state.report_timing import ReportTiming, timing_for_nodes

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
PEERS, BASE_WINDOW_SECONDS, ASSUMED_RATIO = 16, 30.0, 1.1


def rhythm(nodes: int) -> dict[str, float]:
    """Row of the first table → its value."""
    assumed = round(nodes * ASSUMED_RATIO)
    timing = timing_for_nodes(ReportTiming(), assumed)
    interval = probe_rate.probe_interval_seconds(1.0, PEERS, assumed, probe_rate.PROBE_BUDGET)
    window, push = probe_rate.window_seconds(BASE_WINDOW_SECONDS, interval), timing.push_interval_seconds
    return {
        "push interval, seconds": push,
        "a report is stale after, seconds": timing.stale_seconds,
        "lease, seconds": timing.lease_seconds,
        "reports a second, all": nodes / push,
        "time between two probes of a pair, seconds": interval,
        "window of the statistics, seconds": window,
        "a changed delay counts after, seconds": window / 2 + 1.1 * push + timing.call_timeout_seconds,
    }


@pytest.mark.parametrize(("column", "nodes"), [(0, 5_000), (1, 15_000), (2, 50_000)])
def test_the_rhythm_is_what_the_code_computes(column: int, nodes: int) -> None:
    for name, value in rhythm(nodes).items():
        row = re.search(rf"^\| {re.escape(name)} \| (.+) \|$", PAGE, re.MULTILINE)
        assert row, name
        assert float(row[1].split(" | ")[column]) == pytest.approx(value, abs=0.51), name
