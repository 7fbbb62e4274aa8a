"""The system as a whole: real processes, a real etcd, real sockets."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
import pytest

from leadsman.testbed.etcd import Etcd, free_ports

PATIENCE_SECONDS = 30.0
QUICK = ["--push-interval-seconds", "1", "--call-timeout-seconds", "1", "--probe-interval-seconds", "0.2"]


class Process:
    """A `leadsman` child: its URLs, its log, its end. ops_url: /metrics, /healthz and /readyz."""

    def __init__(self, arguments: list[str], url: str, ops_url: str, log: Path) -> None:
        self.url, self.ops_url, self.log_file = url, ops_url, log
        with log.open("wb") as out:
            command = [sys.executable, "-m", "leadsman.cli.main", *arguments]
            self.child = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text. (0, why) when nobody answers."""
        base = self.ops_url if path in ("/metrics", "/healthz", "/readyz") else self.url
        try:
            with urlopen(base + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except URLError as error:
            read = getattr(error, "read", None)
            return getattr(error, "code", 0), read().decode() if read else str(error)

    def metric(self, name: str) -> float:
        """The one sample of this name and these labels; 0 when there is none."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(f"{name} ")]
        return float(lines[0].split()[1]) if lines else 0.0

    def stop(self) -> int:
        self.child.terminate()
        return self.child.wait(PATIENCE_SECONDS)


Start = Callable[..., Process]
Until = Callable[..., Any]
Fresh = Callable[[Process], set[str]]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    found = Etcd(tmp_path / "etcd")
    try:
        yield found.start()
    finally:
        found.clean()


@pytest.fixture
def start(tmp_path: Path, etcd: Etcd) -> Iterator[Start]:
    """`start("agent", "--node-name", "a")`: on free ports, with the test's etcd. All are gone after the test."""
    running: list[Process] = []

    def started(*arguments: str, host: str = "127.0.0.1", port: int = 0) -> Process:
        free, ops = free_ports(2)
        port = port or free
        listen = ["--listen", f"{host}:{port}", "--etcd", etcd.client_url]
        plain = [] if "--tls-cert" in arguments else ["--plain-http"]
        own = {"extender": [*plain, "--ops-listen", f"{host}:{ops}"], "agent": QUICK}
        more = own.get(arguments[0], [])
        urls = (f"http://{host}:{port}", f"http://{host}:{ops if arguments[0] == 'extender' else port}")
        running.append(Process([arguments[0], *listen, *more, *arguments[1:]], *urls, tmp_path / f"{len(running)}.log"))
        return running[-1]

    yield started
    for process in running:
        process.child.kill()
        process.child.wait()


@pytest.fixture
def agent(start: Start) -> Start:
    """`agent("a", 1)`: node a at 127.0.3.1."""

    def started(node: str, number: int, *more: str, port: int = 0) -> Process:
        address = f"127.0.3.{number}"
        return start("agent", "--node-name", node, "--address", address, *more, host=address, port=port)

    return started


@pytest.fixture
def until() -> Until:
    """`until(condition, what)`: waits for the thing itself; AssertionError names it."""

    def waited(true: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
            time.sleep(0.05)
        return found

    return waited


@pytest.fixture
def fresh() -> Fresh:
    """The nodes that an extender holds for fresh."""

    def nodes(extender: Process) -> set[str]:
        status, text = extender.get("/state?format=json")
        found = msgspec.json.decode(text)["nodes"] if status == 200 else {}
        return {name for name, node in found.items() if node["freshness"] == "fresh"}

    return nodes
