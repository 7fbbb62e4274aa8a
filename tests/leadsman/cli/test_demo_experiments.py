"""kubeRL's experiment and the failover demo as a newcomer runs them, with the kubelets and control plane they play."""

import re
import subprocess
import sys

import pytest

from leadsman.cli.demo.rewards_demo import BAD_NODE, ELSEWHERE_TARGET, GOOD_NODES, WORST_NODE
from leadsman.testbed import virtual_network

pytestmark = pytest.mark.slow
NO_NAMESPACES = virtual_network.why_unavailable()


def run(name: str) -> str:
    demo = [sys.executable, "-m", "leadsman.cli.main", "demo", name]
    done = subprocess.run(demo, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    return done.stdout


def rows(text):
    cells = (re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.startswith("node-"))
    return {found[0]: found for found in cells}


def test_later_pods_go_elsewhere_and_a_repaired_node_gets_its_share_back() -> None:
    screen = run("rewards")
    tables = [rows(part) for part in screen.split("NODE ")[1:]]
    learned, later, repaired = tables
    reward = {node: float(cells[3]) for node, cells in learned.items() if cells[3] != "-"}
    assert reward[WORST_NODE] < reward[BAD_NODE] < 0.9
    assert all(learned[node][3] == "-" or reward[node] > reward[BAD_NODE] for node in GOOD_NODES)
    placed = {node: int(cells[5]) for node, cells in later.items()}
    assert sum(placed[node] for node in GOOD_NODES) >= ELSEWHERE_TARGET * sum(placed.values())
    assert [cells[1] for cells in later.values()] == ["crash every 10 s", "crash every 60 s", *["none"] * 4]
    assert repaired[WORST_NODE][1] == "repaired"
    assert int(repaired[WORST_NODE][5]) > placed[WORST_NODE]
    assert "1,000 times as fast" in " ".join(screen.split())


@pytest.mark.skipif(NO_NAMESPACES is not None, reason=f"no network namespaces here: {NO_NAMESPACES}")
def test_the_third_request_s_room_is_made_and_the_pod_of_a_killed_node_comes_back_within_its_bound() -> None:
    screen = run("failover")
    assert screen.startswith("SIMULATED: the API server")
    assert re.search(r"^deployment1 .+ edge-1, moved to edge-[23] ", screen, re.MULTILINE), screen
    assert re.search(r"^deployment3 .+ 6 Gi    edge-1 ", screen, re.MULTILINE), screen
    landed = re.search(r"is back on (\S+) \(its backup: (\S+)\), ([\d.]+) ms from edge-1, bound 25 ms", screen)
    assert landed, screen
    assert landed[1] == landed[2]
    assert float(landed[3]) <= 25.0
    steps = re.findall(r"^ +([\d.]+)  (.+)$", screen, re.MULTILINE)
    assert [what for _, what in steps] == ["first lost probe", "suspect", "dead", "tainted", "pod deleted", "bound"]
    assert [float(at) for at, _ in steps] == sorted(float(at) for at, _ in steps)
