"""One agent as a process: what it serves, what it writes, how it leaves, and what it survives."""

import base64
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until


def stored(etcd, node: str) -> list[str]:
    """The kinds of the node's records in etcd."""
    prefix = f"/leadsman/v1/nodes/{node}/".encode()
    end = prefix[:-1] + b"0"
    body = {"key": base64.b64encode(prefix).decode(), "range_end": base64.b64encode(end).decode()}
    found = etcd.post("/v3/kv/range", body).get("kvs", [])
    return sorted(base64.b64decode(item["key"]).decode().rpartition("/")[2] for item in found)


ALL = ["hardware", "heartbeat", "identity", "latency", "reachability"]


def test_it_reports_everything_and_takes_it_along_when_it_is_stopped(
    agent: "Start", etcd: Etcd, until: "Until"
) -> None:
    process = agent("edge-1", 1)
    until(lambda: stored(etcd, "edge-1") == ALL, "all five records")
    until(lambda: process.get("/readyz") == (200, "ok\n"), "the lease renewed after that report")
    assert process.stop() == 0
    assert stored(etcd, "edge-1") == []


def test_agents_find_each_other_through_the_state_and_measure(agent: "Start", until: "Until") -> None:
    one = agent("edge-1", 1)
    agent("edge-2", 2)
    p50 = until(lambda: one.metric('leadsman_peer_rtt_p50_seconds{peer="edge-2"}'), "an RTT from edge-1 to edge-2")
    assert 0 < p50 < 0.05


def test_the_series_of_a_peer_that_left_go_at_once(agent: "Start", until: "Until") -> None:
    one, two = agent("edge-1", 1), agent("edge-2", 2)
    until(lambda: one.metric('leadsman_peer_rtt_p50_seconds{peer="edge-2"}'), "an RTT")
    two.stop()
    until(lambda: 'peer="edge-2"' not in one.get("/metrics")[1], "no series of edge-2", 5)


def test_a_second_agent_of_the_node_gives_up_naming_the_first(agent: "Start", until: "Until") -> None:
    first = agent("edge-1", 1, "--owner", "pod-1")
    until(lambda: first.get("/readyz")[0] == 200, "the first agent ready")
    second = agent("edge-1", 2, "--owner", "pod-2")
    assert second.child.wait(30) == 1
    assert "another agent (owner pod-1) owns the records of node edge-1; this agent is pod-2" in second.log
    assert "Traceback" not in second.log
    assert first.get("/readyz")[0] == 200


def test_without_etcd_it_measures_serves_and_reports_once_etcd_is_there(
    agent: "Start", etcd: Etcd, until: "Until"
) -> None:
    etcd.kill()
    process = agent("edge-1", 1)
    until(lambda: process.get("/healthz") == (200, "ok\n"), "alive without etcd")
    until(lambda: process.metric("leadsman_load1") or "leadsman_load1 " in process.get("/metrics")[1], "hardware")
    status, why = process.get("/readyz")
    assert status == 503
    assert why.strip()
    etcd.start()
    until(lambda: stored(etcd, "edge-1") == ALL, "all records after etcd started", 8)


@pytest.mark.parametrize("down_seconds", [1, 7])
def test_after_etcd_was_killed_and_came_back_it_reports_within_8_seconds(
    agent: "Start", etcd: Etcd, until: "Until", down_seconds: int
) -> None:
    process = agent("edge-1", 1)
    until(lambda: stored(etcd, "edge-1") == ALL, "all records")
    etcd.kill()
    failed = process.metric('leadsman_report_failures_total{cause="Unavailable"}')
    until(
        lambda: process.metric('leadsman_report_failures_total{cause="Unavailable"}') >= failed + down_seconds,
        "failing",
    )
    reports = process.metric("leadsman_reports_total")
    etcd.start()
    until(lambda: process.metric("leadsman_reports_total") > reports, "a report after etcd came back", 8)


def test_a_frozen_agent_goes_when_its_lease_ends_and_comes_back_when_thawed(
    agent: "Start", etcd: Etcd, until: "Until"
) -> None:
    process = agent("edge-1", 1)
    until(lambda: stored(etcd, "edge-1") == ALL, "all records")
    process.child.send_signal(signal.SIGSTOP)
    until(lambda: stored(etcd, "edge-1") == [], "no records of a frozen agent", 4 + 3)
    process.child.send_signal(signal.SIGCONT)
    until(lambda: stored(etcd, "edge-1") == ALL, "all records again", 8)


def test_a_port_that_is_taken_is_one_clear_line(agent: "Start", until: "Until") -> None:
    first = agent("edge-1", 1)
    until(lambda: first.get("/healthz")[0] == 200, "the first agent")
    second = agent("edge-2", 1, port=int(first.url.rpartition(":")[2]))
    assert second.child.wait(30) == 1
    assert "address already in use" in second.log
    assert "Traceback" not in second.log


def test_filesystems_have_sizes_where_the_host_s_are_mounted_elsewhere(
    agent: "Start", tmp_path: Path, until: "Until"
) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "root").symlink_to("/")
    process = agent("edge-1", 1, "--proc-root", f"{tmp_path}/proc", "--rootfs", f"{tmp_path}/root")
    until(lambda: "leadsman_filesystem_size_bytes{" in process.get("/metrics")[1], "a filesystem with a size")


def test_beside_node_exporter_it_shows_no_hardware_and_reports_it_all_the_same(
    agent: "Start", etcd: Etcd, until: "Until"
) -> None:
    process = agent("edge-1", 1, "--hardware-metrics", "off", "--zone", "a")
    until(lambda: "hardware" in stored(etcd, "edge-1"), "the record that decisions read")
    shown = process.get("/metrics")[1]
    assert 'leadsman_collector_success{collector="load"} 1.0' in shown
    assert "leadsman_load1" not in shown
    assert 'leadsman_agent_info{node="edge-1",rack="",zone="a"} 1.0' in shown
