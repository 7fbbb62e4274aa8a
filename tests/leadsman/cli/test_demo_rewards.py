"""kubeRL's experiment as a newcomer runs it, and the played kubelets behind it."""

import re
import subprocess
import sys

import pytest

from leadsman.cli.demo.rewards_demo import BAD_NODE, ELSEWHERE_TARGET, GOOD_NODES, WORST_NODE

DEMO = [sys.executable, "-m", "leadsman.cli.main", "demo", "rewards"]


@pytest.mark.slow
def test_later_pods_go_elsewhere_and_a_repaired_node_gets_its_share_back() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    tables = [rows(part) for part in done.stdout.split("NODE ")[1:]]
    learned, later, repaired = tables
    reward = {node: float(cells[3]) for node, cells in learned.items() if cells[3] != "-"}
    assert reward[WORST_NODE] < reward[BAD_NODE] < 0.9
    assert all(learned[node][3] == "-" or reward[node] > reward[BAD_NODE] for node in GOOD_NODES)
    placed = {node: int(cells[5]) for node, cells in later.items()}
    assert sum(placed[node] for node in GOOD_NODES) >= ELSEWHERE_TARGET * sum(placed.values())
    assert [cells[1] for cells in later.values()] == ["crash every 10 s", "crash every 60 s", *["none"] * 4]
    assert repaired[WORST_NODE][1] == "repaired"
    assert int(repaired[WORST_NODE][5]) > placed[WORST_NODE]
    assert "1,000 times as fast" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 100


def rows(text):
    cells = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("node-"))
    return {found[0]: found for found in cells}
