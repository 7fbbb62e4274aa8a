"""A fake API server with nodes, and the controller's parts that act on them, with facts in the test's hand."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.keeper import NodeCache
from controller.labels import LabelReconciler, NodePatcher
from controller.run import run
from controller.settings import ControllerSettings
from leadsman.decision.inputs import DecisionInputs, PolledMetrics, Readings, TasPolicies, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import taspolicy
from leadsman.decision.telemetry.taspolicy import TasPolicy
from leadsman.kube import quantity
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess as StoreAccess
from leadsman.state.snapshot import Snapshot
from leadsman.testbed.api_objects import parse_path
from leadsman.testbed.etcd import free_ports
from tests.controller.followed import event_writer, tools
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer

WITHIN_SECONDS = 60.0

FREE = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, max_flips_per_hour=10**6)


@pytest.fixture
async def client(api: FakeApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=5.0) as one:
        yield one


@pytest.fixture
async def recorder(client: ApiClient) -> AsyncIterator[EventWriter]:
    one = event_writer(client)
    async with running(one.run()):
        yield one


def policy(name: str = "p", **strategies: Sequence[Mapping[str, Any]]) -> TasPolicy:
    """Of the namespace `ns`."""
    spec = {"strategies": {key: {"rules": rules} for key, rules in strategies.items()}}
    return taspolicy.parse_taspolicy({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def rule(metric: str, operator: str, target: int, *labels: str) -> dict[str, Any]:
    return {"metricname": metric, "operator": operator, "target": target, "labels": list(labels)}


def known(
    policies: Iterable[TasPolicy], metrics: Mapping[str, Mapping[str, float]], now: float = 1000.0
) -> DecisionInputs:
    """metrics: metric → node → value, all just read."""
    columns = {m: Readings({n: quantity.parse(str(v)) for n, v in of.items()}) for m, of in metrics.items()}
    used = {each.key: each for each in policies}
    return DecisionInputs(
        Snapshot(), Policy(), now, telemetry=TelemetryInputs(TasPolicies(used, loaded=True), (PolledMetrics(columns),))
    )


class Acting:
    """A controller whose facts the test sets."""

    def __init__(self, client: ApiClient, recorder: EventWriter) -> None:
        self.facts, self.now, self.recorder = known((), {}), 1000.0, recorder
        options = ListOptions(NODES, metadata_only=True)
        self.watched = Reflector(client, options, PartialObjectMetadata, rng=random.Random(1))
        self.nodes = NodeCache(self.watched)
        self.writer = NodePatcher(client, self.nodes, TokenBucket(1e6, 50), clock=lambda: self.now)
        self.keeper = LabelReconciler(tools(client, recorder, lambda: self.facts), self.nodes, self.writer, FREE)

    async def step(self, policies: Iterable[TasPolicy], metrics: Mapping[str, Mapping[str, float]]) -> Any:
        self.now += 1
        self.facts = known(policies, metrics, self.now)
        await self.keeper.turn()
        return self.keeper.plan


@asynccontextmanager
async def acting(api: FakeApiServer, *nodes: str) -> AsyncIterator[Acting]:
    """Runs until the block ends; the nodes are listed."""
    for name in nodes:
        api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"kubernetes.io/hostname": name}}})
    async with ApiClient(ApiAccess(api.url), deadline_seconds=5.0) as client:
        one = Acting(client, event_writer(client))
        async with running(one.watched.run(), one.recorder.run()):
            await asyncio.wait_for(one.watched.loaded.wait(), WITHIN_SECONDS)
            yield one


def labels(api: FakeApiServer, node: str) -> dict[str, str]:
    """What the API server holds of ours."""
    found = api.objects.get(parse_path(NODES.path("", node)))["metadata"].get("labels") or {}
    return {key: value for key, value in found.items() if key != "kubernetes.io/hostname"}


@asynccontextmanager
async def started(api: FakeApiServer, **more: Any) -> AsyncIterator[int]:
    """A process in this loop, without an etcd; it listens, and has left when the block ends. Yields its port."""
    (port,) = free_ports(1)
    telemetry = TelemetrySettings(("agents",), ApiAccess(api.url))
    store = StoreAccess(("http://127.0.0.1:1",))
    stop, settings = asyncio.Event(), ControllerSettings(store, telemetry, "one", listen=("127.0.0.1", port), **more)
    task = asyncio.create_task(run(settings, stop))
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not (task.done() or await _listens(port)):  # noqa: ASYNC110 -- a port has no event
                await asyncio.sleep(0.01)
        yield port
    finally:
        stop.set()
        await asyncio.wait_for(task, WITHIN_SECONDS)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
