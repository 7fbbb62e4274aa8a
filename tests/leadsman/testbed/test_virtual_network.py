"""Real namespaces, real packets, `ping` as the judge."""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadsman.testbed import namespaces
from leadsman.testbed.virtual_network import NetworkFailed, VirtualNetwork, why_unavailable


def marked(test):
    """For a test that builds a network."""
    for mark in (
        pytest.mark.integration,
        pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable())),
        pytest.mark.skipif(shutil.which("ping") is None, reason="no ping: apt-get install iputils-ping"),
    ):
        test = mark(test)
    return test


def ping(net, one, address, count=30, interval_seconds=0.02):
    argv = ["ping", "-n", "-c", str(count), "-i", str(interval_seconds), "-W", "1", address]
    done = subprocess.run(net.command(one, argv), capture_output=True, text=True, check=False)
    return [float(ms) for ms in re.findall(r"time=([\d.]+) ms", done.stdout)]


def ours(prefix):
    return [name for name in namespaces.existing() if name.startswith(prefix)]


def until(true, deadline_seconds=60.0):
    end = time.monotonic() + deadline_seconds
    while not true():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.01)


@marked
def test_eight_hosts_reach_each_other_in_both_families() -> None:
    hosts = [f"node-{number}" for number in range(8)]
    with VirtualNetwork(hosts) as net:
        for one, other in zip(hosts, hosts[1:] + hosts[:1], strict=True):
            assert len(ping(net, one, net.address(other), count=1)) == 1
            assert len(ping(net, one, net.address6(other), count=1)) == 1


@marked
def test_a_delay_is_never_short_and_exact_to_50_microseconds_beside_the_paths_own_time() -> None:
    """The path's own time is that of 0.5 ms. ping prints three digits, so 12.5 ms may be 50 us more. A busy machine
    holds ping itself up, so the quickest quarter counts, of ten attempts."""
    with VirtualNetwork(["a", "b"]) as net:
        for _ in range(10):
            excess = {rtt_ms: excess_ms(net, rtt_ms) for rtt_ms in (0.5, 5.0, 12.5)}
            assert min(excess.values()) >= 0
            if max(abs(ms - excess[0.5]) for ms in excess.values()) < 0.05:
                return
    pytest.fail(f"excess by delay, ms: {excess}")


def excess_ms(net, rtt_ms):
    """What a round trip takes beyond its delay, in the quickest quarter."""
    net.set_delay("a", "b", rtt_ms)
    return statistics.quantiles(ping(net, "a", net.address("b"), count=60), n=4)[0] - rtt_ms


@marked
def test_a_delay_is_that_pairs_own() -> None:
    with VirtualNetwork(["a", "b", "c"], {("b", "a"): 30.0}) as net:
        assert min(ping(net, "a", net.address("b"), count=5)) >= 30
        assert statistics.median(ping(net, "a", net.address("c"), count=5)) < 10


@marked
def test_a_host_answers_on_all_addresses_of_its_block() -> None:
    with VirtualNetwork(["a", "b"], {("a", "b"): 5.0}) as net:
        assert net.block("b") == "10.214.1.0/24"
        for last in (1, 254):
            assert min(ping(net, "a", f"10.214.1.{last}", count=2)) >= 5


@marked
def test_a_cut_pair_hears_nothing_until_it_is_set_again() -> None:
    with VirtualNetwork(["a", "b"]) as net:
        net.cut("a", "b")
        assert ping(net, "a", net.address("b"), count=3) == []
        net.set_delay("a", "b", 0.0)
        assert len(ping(net, "a", net.address("b"), count=3)) == 3


@marked
def test_within_a_host_icmp_needs_no_privilege() -> None:
    with VirtualNetwork(["a"]) as net:
        found = subprocess.check_output(net.command("a", ["cat", "/proc/sys/net/ipv4/ping_group_range"]), text=True)
    assert found.split() == ["0", "2147483647"]


@marked
def test_everything_is_removed_with_what_runs_inside() -> None:
    with VirtualNetwork(["a", "b"]) as net:
        prefix = net.namespace("a")[:-1]
        inside = subprocess.Popen(net.command("a", ["sleep", "600"]))
        # It is called `sleep` only once `ip` has entered the namespace.
        until(lambda: Path(f"/proc/{inside.pid}/comm").read_text() == "sleep\n")
        assert len(ours(prefix)) == 2
    assert ours(prefix) == []
    assert inside.wait(5) == -signal.SIGKILL


@marked
def test_an_error_in_the_block_removes_everything_too() -> None:
    net = VirtualNetwork(["a"])
    with pytest.raises(ZeroDivisionError), net:
        raise ZeroDivisionError
    assert ours(net.namespace("a")) == []


# A test run under nohup hands an ignored SIGHUP down.
HOLDER = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from leadsman.testbed.virtual_network import VirtualNetwork
with VirtualNetwork(["a", "b"]) as net:
    print(net.namespace("a"), net._process.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder():
    """A process that holds a network, the name of a namespace of it, and its forwarder's pid."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        name, forwarder = process.stdout.readline().split()
        yield process, name, int(forwarder)
        process.kill()


@marked
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_when_its_owner_dies_everything_is_removed(holder, how) -> None:
    process, name, _ = holder
    assert ours(name) == [name]
    process.send_signal(how)
    process.wait(20)
    until(lambda: ours(name[:-1]) == [])


@marked
def test_a_closed_terminal_removes_everything(holder) -> None:
    """SIGHUP goes to the whole process group of the terminal."""
    process, name, _ = holder
    os.killpg(process.pid, signal.SIGHUP)
    process.wait(20)
    until(lambda: ours(name[:-1]) == [])


@marked
def test_a_forwarder_that_is_told_to_end_removes_everything(holder) -> None:
    _, name, forwarder = holder
    os.kill(forwarder, signal.SIGTERM)
    until(lambda: ours(name[:-1]) == [])


@marked
def test_what_two_killed_processes_left_is_found_and_removed_by_the_next_network(holder) -> None:
    process, name, forwarder = holder
    process.send_signal(signal.SIGSTOP)
    os.kill(forwarder, signal.SIGKILL)
    until(lambda: name in namespaces.stale())
    process.kill()
    process.wait(20)
    with VirtualNetwork(["a"]):
        assert ours(name[:-1]) == []


@marked
def test_a_namespace_of_somebody_else_whose_name_begins_like_ours_is_left_alone() -> None:
    name = f"{namespaces.PREFIX}-cp{os.getpid()}"
    namespaces.add([name])
    try:
        with VirtualNetwork(["a"]):
            assert name not in namespaces.existing()
        assert Path("/run/netns", name).exists()
    finally:
        namespaces.remove([name])


@marked
def test_two_networks_stand_beside_each_other() -> None:
    with VirtualNetwork(["a", "b"], {("a", "b"): 20.0}) as one, VirtualNetwork(["a", "b"]) as other:
        assert one.namespace("a") != other.namespace("a")
        assert min(ping(one, "a", one.address("b"), count=3)) >= 20
        assert statistics.median(ping(other, "a", other.address("b"), count=5)) < 10


@marked
def test_a_dead_forwarder_is_said_so() -> None:
    with VirtualNetwork(["a", "b"]) as net:
        net._process.kill()
        net._process.wait()
        with pytest.raises(NetworkFailed, match="the forwarder has died"):
            net.set_delay("a", "b", 1.0)
        prefix = net.namespace("a")
    assert ours(prefix) == []


@pytest.mark.parametrize("hosts", [["a", "a"], ["A"], ["a b"], ["../a"], [""], [f"h{n}" for n in range(251)]])
def test_hosts_that_cannot_be_are_refused(hosts) -> None:
    with pytest.raises(ValueError, match="want"):
        VirtualNetwork(hosts)


def test_outside_its_block_a_network_takes_no_orders() -> None:
    with pytest.raises(NetworkFailed, match="not up"):
        VirtualNetwork(["a", "b"]).set_delay("a", "b", 1.0)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(KeyError, match="no host 'z': want one of a, b"):
        VirtualNetwork(["a", "b"]).command("z", ["true"])


def test_who_is_not_root_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reason = why_unavailable()
    assert reason is not None
    assert "run with sudo" in reason


def may_run_in_real_time():
    command = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", command], capture_output=True).returncode == 0


@marked
def test_the_forwarder_runs_before_ordinary_processes_so_that_a_busy_machine_adds_no_delay() -> None:
    with VirtualNetwork(["a"]) as net:
        assert net._process
        policy = os.sched_getscheduler(net._process.pid)
    assert policy == (os.SCHED_RR if may_run_in_real_time() else os.SCHED_OTHER)


@marked
def test_a_namespace_that_others_named_so_is_none_of_ours() -> None:
    other = "leadsman-of-others"
    namespaces.add([other])
    try:
        assert other not in namespaces.existing()
        assert other not in namespaces.stale()
    finally:
        namespaces.remove([other])
