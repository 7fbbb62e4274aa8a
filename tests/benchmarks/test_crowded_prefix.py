"""320,000 rewards under one node's prefix stop neither the extender nor the other nodes."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_with_320_000_rewards_under_one_node_filter_is_quick_and_the_other_nodes_are_fresh() -> None:
    command = [sys.executable, "-m", "benchmarks.crowded_prefix", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    phases = msgspec.json.decode(done.stdout)
    assert all(seen["failed"] == 0 and seen["largest_rss_mib"] < 200 for seen in phases.values())
    assert phases["afterwards"]["p99_ms"] <= 200
    followed = ("while the keys are written", "afterwards", "overwritten without end")
    assert {name: phases[name]["least_fresh"] for name in followed} == dict.fromkeys(followed, 100)
