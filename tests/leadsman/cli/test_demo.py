"""The demo as a newcomer runs it: real processes, real delays, nothing left behind."""

import contextlib
import os
import pty
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from leadsman.testbed import namespaces, virtual_network

DEMO = [sys.executable, "-m", "leadsman.cli.main", "demo"]
TIMEOUT_SECONDS = 90
NO_NAMESPACES = virtual_network.why_unavailable()
needs_namespaces = pytest.mark.skipif(NO_NAMESPACES is not None, reason=f"no network namespaces here: {NO_NAMESPACES}")


def rows(screen: str) -> dict[str, list[str]]:
    """Node → the cells of its row."""
    cells = (re.split(r"\s{2,}", line.strip()) for line in screen.splitlines())
    return {found[0]: found for found in cells if len(found) == 7 and found[0] != "NODE"}


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After the test no process runs that the demo started: all have its environment."""
    mark = f"DEMO_OF_THE_TEST={uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    yield
    assert [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in environment(path)] == []


def environment(path: Path) -> str:
    """Of a process that may be gone by now."""
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace")
    return ""


@pytest.mark.integration
@needs_namespaces
def test_on_a_terminal_the_page_comes_first_and_the_demo_stays_until_ctrl_c(nothing_left: None, tmp_path: Path) -> None:
    """The bound is held over real delays, the link that is cut is listed, what it offers to try works."""
    before = set(namespaces.stale())
    ours, its = pty.openpty()
    with (tmp_path / "said").open("w+") as said, os.fdopen(ours, errors="replace") as terminal:
        demo = subprocess.Popen(DEMO, stdout=its, stderr=said, text=True)
        os.close(its)
        screen = "".join(iter_until(terminal, "delay edge-3 metro-1"))
        first, *_ = (tmp_path / "said").read_text().splitlines() or [""]
        page = re.search(r"^page +(http://127\.0\.0\.1:\d+)/", first)
        assert page, first
        with urllib.request.urlopen(page[1]) as answer:
            assert b"<!doctype html>" in answer.read(100).lower()
        commands = [line.strip() for line in screen.splitlines() if "--extender" in line]
        done = [subprocess.run(shlex.split(line), capture_output=True, text=True) for line in commands]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0, (tmp_path / "said").read_text()
    table = rows(screen)
    assert {node: cells[4] for node, cells in table.items()} == {
        **dict.fromkeys(["edge-1", "edge-2", "edge-3", "metro-1"], "kept"),
        "cloud-1": "refused",
    }
    assert table["cloud-1"][6] == "delay to edge-1 over 25 ms"
    assert 44 < float(table["cloud-1"][1].split()[0]) < 55
    assert "edge-3 → metro-1: no reply" in screen
    assert max(map(len, screen.splitlines()[:-5])) <= 100
    assert [each.args for each in done if each.returncode or not each.stdout] == []
    assert "default/cap-00000: edge-1 first" in done[1].stdout
    assert re.search(r"edge-3 +metro-1 +lost", done[2].stdout)
    assert set(namespaces.stale()) <= before


def iter_until(lines: Iterable[str], end: str) -> Iterator[str]:
    """The lines up to that which has this text; all of them when the demo failed."""
    with contextlib.suppress(OSError):
        for line in lines:
            yield line
            if end in line:
                return


def test_ctrl_c_in_its_midst_ends_it_at_once_and_leaves_nothing(nothing_left: None) -> None:
    demo = subprocess.Popen([*DEMO, "rewards"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert demo.stderr
    assert "started" in "".join(iter_until(demo.stderr, "started"))
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=60)
    assert demo.returncode == 130, said
    assert "nothing is left running" in said


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv: apt-get install util-linux")
def test_without_rights_it_says_so_runs_on_loopback_and_ends_by_itself(nothing_left: None) -> None:
    powerless = [] if NO_NAMESPACES else ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    done = subprocess.run([*powerless, *DEMO], capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    assert "loopback addresses, so all delays are near 0" in done.stderr
    assert {cells[4] for cells in rows(done.stdout).values()} == {"kept"}
    assert len(rows(done.stdout)) == 5


AS_A_PLAIN_USER = """set -e
mount -t tmpfs tmpfs /dev/net && mknod /dev/net/tun c 10 200 && chmod 666 /dev/net/tun
if [ -n "$HIDDEN" ]; then
    mkdir -p /run/python && mount -t tmpfs tmpfs /run/python && mkdir /run/python/bound
    mount --bind "$PYTHON" /run/python/bound
    mount -t tmpfs -o mode=755 tmpfs "$HIDDEN" && mkdir -p "$PYTHON" && mount --bind /run/python/bound "$PYTHON"
fi
exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"
"""
"""On a machine of its own kind: /dev/net/tun open to all, and a Python in root's home where everybody may read it."""


@pytest.mark.integration
@needs_namespaces
def test_a_plain_user_has_real_delays_in_a_user_namespace(nothing_left: None) -> None:
    hidden = [str(folder) for folder in Path(sys.base_prefix).parents if not folder.stat().st_mode & stat.S_IXOTH]
    environ = {**os.environ, "HIDDEN": next(iter(hidden), ""), "PYTHON": sys.base_prefix, "TMPDIR": "/tmp"}
    command = ["unshare", "--mount", "sh", "-c", AS_A_PLAIN_USER, "sh", *DEMO]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environ)
    assert done.returncode == 0, done.stderr
    assert "network namespaces in a user namespace" in done.stderr
    assert rows(done.stdout)["cloud-1"][4] == "refused"
    assert 44 < float(rows(done.stdout)["cloud-1"][1].split()[0]) < 100  # 45 ms, and what a busy machine adds
