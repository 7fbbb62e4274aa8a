"""Connections of strangers to real processes: silent ones, half headers, floods of malformed requests."""

import resource
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from leadsman.cli import main
from tests.strangers import strangers

if TYPE_CHECKING:
    from pathlib import Path

    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

MIB = 1 << 20


def log_lines(process: "LeadsmanProcess") -> int:
    return process.log.count("\n")


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("needs 4,096 file descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_1010_silent_connections_leave_an_agent_its_reports_its_metrics_and_its_log(
    agent: "Start", until: "Until"
) -> None:
    process = agent("edge-1", 1)
    until(lambda: process.get("/readyz")[0] == 200, "the first report acknowledged")
    resource.prlimit(process.child.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    lines, rss = log_lines(process), process.peak_rss_bytes
    with strangers(process.url, 1010):
        reports = process.metric("leadsman_reports_total")
        until(lambda: process.metric("leadsman_reports_total") >= reports + 3, "three more reports")
        assert process.get("/readyz")[0] == 200
    assert log_lines(process) - lines <= 15
    assert process.peak_rss_bytes - rss < 20 * MIB


def test_malformed_requests_fill_no_agent_s_log(agent: "Start", until: "Until") -> None:
    process = agent("edge-1", 1)
    until(lambda: process.get("/readyz")[0] == 200, "the first report acknowledged")
    lines = log_lines(process)
    with strangers(process.url, 500, b"GET / HTTP/1.1\r\nno colon\r\n\r\n"):
        assert process.get("/healthz")[0] == 200
    assert "refused a malformed request from 127.0." in process.log
    assert "Traceback" not in process.log
    assert log_lines(process) - lines <= 30


def test_1500_silent_connections_leave_the_extender_behind_mutual_tls_its_memory(
    start: "Start", tmp_path: "Path", until: "Until", capsys: pytest.CaptureFixture[str]
) -> None:
    certs = tmp_path / "certs"
    assert main.main(["certs", "create", "--dir", str(certs)]) == 0
    files = ("--tls-cert", "server.crt", "--tls-key", "server.key", "--tls-client-ca", "ca.crt")
    process = start("extender", *(word if word.startswith("--") else f"{certs}/{word}" for word in files))
    process.url = process.url.replace("http://", "https://")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    rss = process.peak_rss_bytes
    explain = ["explain", "p", "--extender", process.url, "--certs", str(certs)]
    with strangers(process.url, 1500), strangers(process.ops_url, 300, b"GET /metrics HTTP/1.1\r\nHost: x\r\n"):
        began = time.monotonic()
        capsys.readouterr()
        assert main.main(explain) == 1
        assert "default/p" in capsys.readouterr().err, "the extender's answer, that it knows no such pod"
        assert process.get("/readyz")[0] == 200
        assert time.monotonic() - began < 5
    assert process.peak_rss_bytes - rss < 80 * MIB
    assert log_lines(process) < 50
