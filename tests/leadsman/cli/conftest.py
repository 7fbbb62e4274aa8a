"""Real extenders for commands that ask one, and a stand-in for kubectl that reaches them."""

import asyncio
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

from extender.api.app import create_api_app
from extender.api.live import ApiSources, LiveState
from extender.app import create_app
from extender.decider import Decider
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.cli.extender_client import API_PORT
from leadsman.cli.main import main
from leadsman.decision.policy import Policy
from leadsman.runtime.http_server import serve
from leadsman.runtime.version import VERSION
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.wiring import InputSources
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Fixed, network

CAPTURE = Path(__file__).parents[2] / "data/captures/names-3-filter.json.gz"
STAND_IN = Path(__file__).with_name("kubectl_stand_in.py")

CONTAINER_PORTS = {"metrics": "9003", "member": "9005", "api": str(API_PORT)}

Ports = Mapping[str, int]
Started = Callable[..., AbstractAsyncContextManager[Ports]]
Called = Callable[..., Any]


@pytest.fixture
def started() -> Started:
    """started(decided=True): an extender with three nodes; {"api": PORT}."""
    return _started


@asynccontextmanager
async def _started(decided: bool = False, policy: Policy | None = None) -> AsyncIterator[Ports]:
    metrics, workers, journal = ExtenderMetrics(), WorkerPool(), Journal()
    snapshot, now = measured(), time.monotonic()
    # The clock stands still, so that no node grows stale while a busy machine takes its time.
    state = Fixed(snapshot)
    policies: Any = Fixed(policy or Policy())
    sources = InputSources(state, policies, DelaySources(DelaySettings(), state, policies), lambda: now)
    app = create_app(Decider(sources, journal=journal, metrics=metrics, workers=workers))
    people = create_api_app(LiveState(ApiSources(sources, journal, metrics, workers, time.time, "extender-0")))
    async with AsyncExitStack() as stack:
        stack.callback(workers.close)
        port = await stack.enter_async_context(serve(app, "127.0.0.1", 0))
        api_port = await stack.enter_async_context(serve(people, "127.0.0.1", 0))
        if decided:
            async with aiohttp.ClientSession() as session:
                await session.post(f"http://127.0.0.1:{port}/filter", data=gzip.decompress(CAPTURE.read_bytes()))
        yield {"api": api_port}


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


def extender_pod(name: str, *, image: str = f"leadsman:{VERSION}") -> dict[str, Any]:
    """As the API server has it, with what the commands read of it."""
    container = {"name": "extender", "image": image}
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
