"""The demo as a newcomer runs it: real processes, real delays, nothing left behind."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.cli.demo import scheduler_request
from leadsman.testbed import virtual_network

DEMO = [sys.executable, "-m", "leadsman.cli.main", "demo"]
TIMEOUT_SECONDS = 90


def rows(screen: str) -> dict[str, list[str]]:
    """Node → the cells of its row."""
    cells = (re.split(r"\s{2,}", line) for line in screen.splitlines())
    return {found[0]: found for found in cells if len(found) == 9 and found[0] != "NODE"}


def running() -> set[str]:
    command = ["pgrep", "-f", "leadsman.cli.main agent|leadsman.cli.main extender"]
    return set(subprocess.run(command, capture_output=True, text=True).stdout.split())


def namespaces() -> set[str]:
    return set(subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split())


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """After the test there is no process of ours that was not there before."""
    before = running()
    yield
    assert running() <= before


def test_the_request_is_the_captured_one_but_for_names_and_labels() -> None:
    body = scheduler_request.captured_args(["a", "b"], {"delay_a": "25"})
    assert body["NodeNames"] == ["a", "b"]
    assert body["Pod"]["metadata"]["labels"] == {"app": "cap", "delay_a": "25"}
    assert body["Pod"]["spec"]["containers"][0]["image"] == "ghcr.io/acme-edge/detector:v1.2.3"


@pytest.mark.integration
@pytest.mark.skipif(
    virtual_network.why_unavailable() is not None,
    reason=f"no network namespaces here: {virtual_network.why_unavailable()}",
)
def test_as_root_the_bound_is_held_over_real_delays_and_nothing_stays(nothing_left: None) -> None:
    before = namespaces()
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    table = rows(done.stdout)
    assert {node: cells[6] for node, cells in table.items()} == {
        "edge-1": "kept",
        "edge-2": "kept",
        "edge-3": "kept",
        "metro-1": "kept",
        "cloud-1": "refused",
    }
    assert table["cloud-1"][8] == "delay to edge-1 over 25 ms"
    assert 44 < float(table["cloud-1"][1].split()[0]) < 55
    assert "edge-1 first" in done.stdout
    assert namespaces() <= before


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv: apt-get install util-linux")
def test_without_rights_it_says_so_and_runs_on_loopback(nothing_left: None) -> None:
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"] if is_root() else []
    done = subprocess.run([*powerless, *DEMO], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "loopback addresses, so all delays are near 0" in done.stderr
    assert {cells[6] for cells in rows(done.stdout).values()} == {"kept"}
    assert len(rows(done.stdout)) == 5


def test_ctrl_c_stops_a_kept_demo_and_leaves_nothing(nothing_left: None, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out:
        demo = subprocess.Popen([*DEMO, "--keep"], stdout=subprocess.PIPE, stderr=out, text=True)
    assert demo.stdout
    for line in demo.stdout:
        if line.startswith("  etcdctl"):
            break
    demo.send_signal(signal.SIGINT)
    assert demo.wait(30) == 130, (tmp_path / "out").read_text()
    demo.stdout.close()
    assert "nothing is left behind" in (tmp_path / "out").read_text()


def is_root() -> bool:
    return virtual_network.why_unavailable() is None
