"""Real extenders for commands that ask one, and a stand-in for kubectl that reaches them."""

import asyncio
import base64
import gzip
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from extender.app import create_app, create_ops_app
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.cli.extender_replicas import API_PORT
from leadsman.cli.main import main
from leadsman.decision.policy import Policy
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.http_server import serve
from leadsman.runtime.mutual_tls import MutualTls, TlsFiles
from leadsman.runtime.ops_server import Health
from leadsman.runtime.version import VERSION
from leadsman.sources.input_sources import InputSources
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Fixed, network

CAPTURE = Path(__file__).parents[2] / "data/captures/names-3-filter.json.gz"
STAND_IN = Path(__file__).with_name("kubectl_stand_in.py")

CONTAINER_PORTS = {"https": "9001", "ops": "9002", "api": str(API_PORT)}

Ports = Mapping[str, int]
Started = Callable[..., AbstractAsyncContextManager[Ports]]
Called = Callable[..., Any]


@pytest.fixture
def started() -> Started:
    """started(tls=…, decided=True): an extender with three nodes; {"https": PORT, "ops": PORT}."""
    return _started


@asynccontextmanager
async def _started(tls: TlsFiles | None = None, decided: bool = False) -> AsyncIterator[Ports]:
    metrics, workers = ExtenderMetrics(), WorkerPool()
    snapshot, now = measured(), time.monotonic()
    # The clock stands still, so that no node grows stale while a busy machine takes its time.
    sources = InputSources(Fixed(snapshot), Fixed(Policy()), lambda: now)
    app = create_app(sources, metrics=metrics, workers=workers)
    ops = create_ops_app(lambda: Health(True), metrics, workers)
    async with AsyncExitStack() as stack:
        stack.callback(workers.close)
        context = MutualTls(tls) if tls else None
        port = await stack.enter_async_context(serve(app, "127.0.0.1", 0, ServerLimits(), context))
        ops_port = await stack.enter_async_context(serve(ops, "127.0.0.1", 0))
        if decided:
            async with aiohttp.ClientSession() as session:
                await session.post(f"http://127.0.0.1:{port}/filter", data=gzip.decompress(CAPTURE.read_bytes()))
        yield {"https": port, "ops": ops_port}


def measured() -> Snapshot:
    """node-00000 reaches node-00001 in 5 ms and node-00002 in 80 ms, both ways; all fresh."""
    return network({"node-00001": 5.0, "node-00002": 80.0})


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    """await called("nodes", …): exit code, stdout and stderr of a command, beside servers of this loop."""

    async def call(*arguments: str, **environ: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = await asyncio.to_thread(main, arguments, {**os.environ, **environ})
        except SystemExit as ended:
            code = int(ended.code or 0)
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    """A folder that `leadsman certs` made."""
    folder = tmp_path / "certs"
    assert main(["certs", "create", "--dir", str(folder)]) == 0
    return folder


def server_files(folder: Path) -> TlsFiles:
    return TlsFiles(folder / "server.crt", folder / "server.key", folder / "ca.crt", frozenset({"kube-scheduler"}))


def client_secret(folder: Path) -> Mapping[str, Any]:
    """As `leadsman certs secrets` prints it for kube-scheduler."""
    files = {"ca.crt": "ca.crt", "tls.crt": "client.crt", "tls.key": "client.key"}
    return {"data": {key: base64.b64encode((folder / name).read_bytes()).decode() for key, name in files.items()}}


def extender_pod(name: str, *, plain: bool = False, image: str = f"leadsman:{VERSION}") -> dict[str, Any]:
    """As the API server has it, with what the commands read of it."""
    ports = [{"name": "https", "containerPort": 9001}, {"name": "ops", "containerPort": 9002}]
    container = {"name": "extender", "image": image, "args": ["--plain-http"] * plain, "ports": ports}
    return {
        "metadata": {
            "name": name,
            "namespace": "leadsman",
            "labels": {"app.kubernetes.io/name": "leadsman", "app.kubernetes.io/component": "extender"},
        },
        "spec": {"containers": [container], "nodeName": "node-00000"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """kubectl(objects, ports, texts): `kubectl` on PATH answers with these from now on."""
    program, file = tmp_path / "bin" / "kubectl", tmp_path / "cluster.json"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECTL_STAND_IN", str(file))

    def answers(
        objects: Mapping[str, Any],
        ports: Mapping[str, Ports] | None = None,
        texts: Mapping[str, str] | None = None,
        refused: Sequence[str] = (),
    ) -> None:
        forwards = {
            pod: {CONTAINER_PORTS[name]: port for name, port in each.items()} for pod, each in (ports or {}).items()
        }
        file.write_text(json.dumps({"objects": objects, "ports": forwards, "texts": texts or {}, "refused": refused}))

    return answers
