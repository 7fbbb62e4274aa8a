"""Real extenders for commands that ask one, and a stand-in for kubectl that reaches them."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli import output
from leadsman.cli.extender_client import API_PORT
from leadsman.cli.main import main
from leadsman.runtime.version import VERSION
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import NO_PROBLEM, captured, network, starts

STAND_IN = Path(__file__).with_name("kubectl_stand_in.py")

CONTAINER_PORTS = {"metrics": "9003", "member": "9005", "api": str(API_PORT)}

Ports = Mapping[str, int]
Called = Callable[..., Any]


class Reporting:
    """Of three nodes, whose agents report all the time: node-00000 reaches the others in 5 and 80 ms, both ways."""

    problem = NO_PROBLEM

    @property
    def current(self) -> Snapshot:
        return network({"node-00001": 5.0, "node-00002": 80.0})


@asynccontextmanager
async def started(decided: bool = False) -> AsyncIterator[Ports]:
    """An extender with three nodes: {"api": PORT}. decided: on a captured pod."""
    async with starts(Reporting()) as one:
        if decided:
            await one.asked("/filter", captured("names-3-filter"))
        yield {"api": int(one.api_url.rpartition(":")[2])}


@pytest.fixture
async def extender() -> AsyncIterator[str]:
    """The URL of one that has decided nothing."""
    async with started() as ports:
        yield f"http://127.0.0.1:{ports['api']}"


@pytest.fixture
def edge_files(tmp_path: Path) -> list[str]:
    """Flags that name the edge scheduler's files: three nodes, of 8 GiB each, and three Deployments of a pod within 25
    ms of edge-1."""
    (tmp_path / "m.txt").write_text("0 10 15\n10 0 12\n15 12 0\n")
    (tmp_path / "m.json").write_text('{"edge-1": 0, "edge-2": 1, "edge-3": 2}')
    nodes = [{"name": f"edge-{number}", "allocatable_memory": "8Gi"} for number in (1, 2, 3)]
    (tmp_path / "n.json").write_text(json.dumps(nodes))
    (tmp_path / "p.yaml").write_text("---".join(DEPLOYMENT.replace("NAME", name) for name in ("web", "db", "log")))
    names = {"-d": "m.txt", "-m": "m.json", "-n": "n.json", "-p": "p.yaml"}
    return [part for flag, name in names.items() for part in (flag, str(tmp_path / name))]


DEPLOYMENT = """
kind: Deployment
metadata: {name: NAME}
spec:
  template:
    metadata: {labels: {delay_edge-1: "25"}}
    spec: {containers: [{name: a, resources: {requests: {memory: 2Gi}}}]}
"""


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
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a command says on a terminal that it is doing, however short it is."""
    said = list[str]()

    @contextmanager
    def progress(doing: str) -> Iterator[Callable[[str], None]]:
        said.append(doing)
        yield said.append

    monkeypatch.setattr(output, "progress", progress)
    return said


def kubeconfig(server: str) -> str:
    clusters, contexts = [{"name": "c", "cluster": {"server": server}}], [{"name": "x", "context": {"cluster": "c"}}]
    return json.dumps({"current-context": "x", "clusters": clusters, "contexts": contexts})


def extender_pod(name: str, *, image: str = f"leadsman:{VERSION}") -> dict[str, Any]:
    """As the API server has it, with what the commands read of it."""
    return {
        "metadata": {
            "name": name,
            "namespace": "leadsman",
            "labels": {"app.kubernetes.io/part-of": "leadsman", "app.kubernetes.io/component": "extender"},
        },
        "spec": {"containers": [{"name": "extender", "image": image}], "nodeName": "node-00000"},
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
