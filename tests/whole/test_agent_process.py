"""One agent as a process: what it serves, what it writes, how it leaves, and what it survives."""

import signal
from pathlib import Path

from leadsman.state import keys
from leadsman.testbed.etcd import Etcd
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, records

ALL = ["hardware", "heartbeat", "identity", "latency", "reachability"]


def stored(etcd: Etcd, node: str) -> list[str]:
    """The kinds of the node's records in etcd."""
    return sorted(key.rpartition("/")[2] for key in records(etcd, keys.node_prefix(node)))


def test_it_measures_its_peers_and_leaves_with_its_records_and_its_series(
    agent: Start, etcd: Etcd, tmp_path: Path
) -> None:
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "root").symlink_to("/")
    one = agent("edge-1", 1, "--proc-root", f"{tmp_path}/proc", "--rootfs", f"{tmp_path}/root")
    two = agent("edge-2", 2, "--hardware-metrics", "off", "--zone", "a")
    rtt = 'leadsman_peer_rtt_p50_seconds{peer="edge-2"}'
    until(lambda: 0 < one.metric(rtt) < 0.05, "an RTT from edge-1 to edge-2")
    until(lambda: stored(etcd, "edge-1") == stored(etcd, "edge-2") == ALL, "all five records of both")
    until(lambda: one.get("/readyz") == (200, "ok\n"), "the lease renewed after that report")
    until(lambda: "leadsman_filesystem_size_bytes{" in one.get("/metrics")[1], "a filesystem with a size")
    beside_node_exporter = two.get("/metrics")[1]
    assert 'leadsman_collector_success{collector="load"} 1.0' in beside_node_exporter
    assert "leadsman_load1" not in beside_node_exporter
    assert 'leadsman_agent_info{node="edge-2",rack="",zone="a"} 1.0' in beside_node_exporter
    assert two.stop() == 0
    assert stored(etcd, "edge-2") == []
    until(lambda: 'peer="edge-2"' not in one.get("/metrics")[1], "no series of edge-2", 5)


def test_without_etcd_it_measures_and_serves_and_it_reports_within_8_seconds_of_etcd_and_of_being_thawed(
    agent: Start, etcd: Etcd
) -> None:
    etcd.kill()
    process = agent("edge-1", 1)
    until(lambda: process.get("/healthz") == (200, "ok\n"), "alive without etcd")
    until(lambda: "leadsman_load1 " in process.get("/metrics")[1], "hardware")
    status, why = process.get("/readyz")
    assert status == 503
    assert why.strip()
    etcd.start()
    until(lambda: stored(etcd, "edge-1") == ALL, "all records after etcd started", 8)

    etcd.kill()
    failures = 'leadsman_report_failures_total{cause="Unreachable"}'
    failed = process.metric(failures)
    until(lambda: process.metric(failures) >= failed + 3, "failing")
    reports = process.metric("leadsman_reports_total")
    etcd.start()
    until(lambda: process.metric("leadsman_reports_total") > reports, "a report after etcd came back", 8)

    until(lambda: stored(etcd, "edge-1") == ALL, "all records")
    process.child.send_signal(signal.SIGSTOP)
    until(lambda: stored(etcd, "edge-1") == [], "no records of a frozen agent", 4 + 3)
    process.child.send_signal(signal.SIGCONT)
    until(lambda: stored(etcd, "edge-1") == ALL, "all records again", 8)
