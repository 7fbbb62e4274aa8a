"""Connections of strangers to real processes: silent ones, half headers, floods of malformed requests."""

import asyncio
import json
import random
import resource
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from fuzz.http_harness import request_of
from fuzz.mutation import mutate_document, mutate_text
from leadsman.cli import main
from leadsman.cli.demo.scheduler_request import captured_args
from tests.strangers import strangers

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

MIB = 1 << 20

ANSWER_SECONDS = 3.0

CORPUS = Path(__file__).parents[1] / "data" / "fuzz" / "http"

BAD_REQUESTS = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /filter?pod=%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://x:99999/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: \xff;q=x\r\n\r\n",
    b"GET /metrics?name[]=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
)
"""What is no HTTP request, or hardly one."""


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
    start: "Start", tmp_path: Path, until: "Until"
) -> None:
    certs = tmp_path / "certs"
    assert main.main(["certs", "create", "--dir", str(certs)]) == 0
    files = ("--tls-cert", "server.crt", "--tls-key", "server.key", "--tls-client-ca", "ca.crt")
    process = start("extender", *(word if word.startswith("--") else f"{certs}/{word}" for word in files))
    process.url = process.url.replace("http://", "https://")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    rss = process.peak_rss_bytes
    scheduler = ssl.create_default_context(cafile=certs / "ca.crt")
    scheduler.load_cert_chain(certs / "client.crt", certs / "client.key")
    call = Request(
        f"{process.url.replace('127.0.0.1', 'localhost')}/filter", json.dumps(captured_args([], {})).encode()
    )
    with strangers(process.url, 1500), strangers(process.ops_url, 300, b"GET /metrics HTTP/1.1\r\nHost: x\r\n"):
        began = time.monotonic()
        with urlopen(call, timeout=5, context=scheduler) as answer:
            assert answer.status == 200
        assert process.get("/readyz")[0] == 200
        assert time.monotonic() - began < 5
    assert process.peak_rss_bytes - rss < 80 * MIB
    assert log_lines(process) < 50


def corpus_requests(mutations: int) -> list[bytes]:
    """The inputs of the HTTP harness, and mutations of each from a fixed seed."""
    rng = random.Random(7)
    found = []
    for path in sorted(CORPUS.iterdir()):
        data = path.read_bytes()
        found.append(request_of(data))
        for _ in range(mutations):
            body = data[1:8192]
            found.append(request_of(data[:1] + (mutate_document(body, rng) or mutate_text(body, rng))))
    return found


async def send_all(url: str, requests: list[bytes]) -> list[bytes]:
    """The beginning of each answer; b"" where none comes because the request never ends."""
    port, slots = urlsplit(url).port or 0, asyncio.Semaphore(20)

    async def answer(request: bytes) -> bytes:
        async with slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await reader.read(65_536)
            except (ConnectionError, TimeoutError):
                return b""
            finally:
                writer.transport.abort()

    return await asyncio.gather(*map(answer, requests))


async def test_no_request_leaves_a_traceback_in_the_extender_s_log(start: "Start", until: "Until") -> None:
    process = start("extender")
    await asyncio.to_thread(until, lambda: process.get("/readyz")[0] == 200, "ready")
    answers = await send_all(process.url, [*BAD_REQUESTS, *corpus_requests(20)])
    answers += await send_all(process.ops_url, list(BAD_REQUESTS))
    assert [answer[:80] for answer in answers if answer.startswith(b"HTTP/1.1 5")] == []
    assert "refused a malformed request from 127.0.0.1" in process.log
    assert process.stop() == 0
    assert "Traceback" not in process.log


@pytest.mark.parametrize(
    "command",
    [["agent", "--node-name", "a", "--address", "127.0.0.1"], ["controller", "--kube-api", "http://127.0.0.1:1"]],
)
async def test_no_request_leaves_a_traceback_in_an_agent_s_or_a_controller_s_log(
    command: list[str], start: "Start", until: "Until"
) -> None:
    process = start(*command)
    await asyncio.to_thread(until, lambda: process.get("/healthz")[0] == 200, "it answers")
    answers = await send_all(process.url, list(BAD_REQUESTS))
    assert [answer[:80] for answer in answers if answer.startswith(b"HTTP/1.1 5")] == []
    assert process.stop() == 0
    assert "Traceback" not in process.log
