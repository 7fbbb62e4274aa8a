"""The failover demo as a newcomer runs it, and the control plane that it plays."""

import re
import subprocess
import sys

import pytest

from leadsman.testbed import virtual_network

DEMO = [sys.executable, "-m", "leadsman.cli.main", "demo", "failover"]


@pytest.mark.slow
@pytest.mark.skipif(
    virtual_network.why_unavailable() is not None, reason=f"no namespaces: {virtual_network.why_unavailable()}"
)
def test_the_third_request_s_room_is_made_and_the_pod_of_a_killed_node_comes_back_within_its_bound() -> None:
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("SIMULATED: the API server")
    assert re.search(r"^deployment1 .+ edge-1, moved to edge-[23] ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^deployment3 .+ 6 Gi    edge-1 ", done.stdout, re.MULTILINE), done.stdout
    landed = re.search(r"is back on (\S+) \(its backup: (\S+)\), ([\d.]+) ms from edge-1, bound 25 ms", done.stdout)
    assert landed, done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert landed[1] == landed[2]
    assert float(landed[3]) <= 25.0
    steps = re.findall(r"^ +([\d.]+)  (.+)$", done.stdout, re.MULTILINE)
    assert [what for _, what in steps] == ["first lost probe", "suspect", "dead", "tainted", "pod deleted", "bound"]
    assert [float(at) for at, _ in steps] == sorted(float(at) for at, _ in steps)
