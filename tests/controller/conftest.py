"""A fake API server with nodes, and the controller's parts that act on them, with facts in the test's hand."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver.access import Access
from apiserver.listing import Wanted
from apiserver.objects import Bare
from apiserver.requests import Client
from apiserver.resources import NODES
from apiserver.watching import Reflector
from clusterstate.snapshot import Snapshot
from clusterstate.transport import Access as StoreAccess
from controller.loop import Loop
from controller.nodes import Nodes
from controller.rate import Rate
from controller.recorder import Recorder
from controller.run import Settings, run
from controller.writer import Writer
from decision.model import Facts
from decision.policy import Policy
from decision.remedies import Limits
from decision.telemetry import document, quantity
from decision.telemetry.known import Policies, Polled, Readings, Telemetry
from decision.telemetry.policy import TasPolicy
from telemetry.sources import TelemetrySettings
from testbed.apiserver import ApiServer
from testbed.etcd import free_ports

WITHIN_SECONDS = 15.0

FREE = Limits(most_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, most_flips_per_hour=10**6)


def policy(name: str = "p", **strategies: list[Mapping[str, Any]]) -> TasPolicy:
    """Of the namespace `ns`."""
    spec = {"strategies": {key: {"rules": rules} for key, rules in strategies.items()}}
    return document.parse({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def rule(metric: str, operator: str, target: int, *labels: str) -> dict[str, Any]:
    return {"metricname": metric, "operator": operator, "target": target, "labels": list(labels)}


def known(policies: Iterable[TasPolicy], metrics: Mapping[str, Mapping[str, float]], now: float = 1000.0) -> Facts:
    """metrics: metric → node → value, all just read."""
    columns = {m: Readings({n: quantity.parse(str(v)) for n, v in of.items()}) for m, of in metrics.items()}
    used = {each.key: each for each in policies}
    return Facts(Snapshot(), Policy(), now, telemetry=Telemetry(Policies(used, loaded=True), (Polled(columns),)))


class Acting:
    """A controller whose facts the test sets."""

    def __init__(self, client: Client, watched: Any, per_second: float = 1e6, limits: Limits = FREE) -> None:
        self.facts, self.leads, self.now = known((), {}), True, 1000.0
        self.nodes = Nodes(watched)
        self.watched = watched
        self.recorder = Recorder(client, Rate(1e6, 1000), "controller-1")
        self.writer = Writer(client, self.nodes, Rate(per_second, 50), lambda: self.leads)
        self.loop = Loop(self.nodes, lambda: self.facts, self.writer, self.recorder, limits)

    async def step(self, policies: Iterable[TasPolicy], metrics: Mapping[str, Mapping[str, float]]) -> Any:
        self.now += 1
        self.facts = known(policies, metrics, self.now)
        return await self.loop.once()


@pytest.fixture
def make() -> Any:
    class Words:
        pass

    words = Words()
    words.policy, words.rule, words.known, words.free = policy, rule, known, FREE  # type: ignore[attr-defined]
    return words


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as one:
        yield one


@pytest.fixture
async def client(api: ApiServer) -> AsyncIterator[Client]:
    async with Client(Access(api.url), deadline_seconds=5.0) as one:
        yield one


@pytest.fixture
def until() -> Callable[..., Any]:
    async def reached(true: Callable[[], Any], seconds: float = WITHIN_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not true():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    return reached


@pytest.fixture
def acting(api: ApiServer, client: Client) -> Callable[..., Any]:
    """acting(nodes, per_second=…, limits=…): runs until the block ends; the nodes are listed."""

    @asynccontextmanager
    async def run(nodes: Iterable[str] = (), **settings: Any) -> AsyncIterator[Acting]:
        for name in nodes:
            api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"kubernetes.io/hostname": name}}})
        watched = Reflector(client, Wanted(NODES, metadata_only=True), Bare, rng=random.Random(1))
        one = Acting(client, watched, **settings)
        tasks = [asyncio.create_task(watched.run()), asyncio.create_task(one.recorder.run())]
        try:
            await asyncio.wait_for(watched.loaded.wait(), WITHIN_SECONDS)
            yield one
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return run


@pytest.fixture
def running(api: ApiServer) -> Callable[..., Any]:
    """running(dry_run=…): a process in this loop, without an etcd; it has left when the block ends. Yields its port."""

    @asynccontextmanager
    async def started(identity: str = "one", **more: Any) -> AsyncIterator[int]:
        (port,) = free_ports(1)
        telemetry = TelemetrySettings(("agents",), Access(api.url))
        wanted = Settings(StoreAccess(("http://127.0.0.1:1",)), telemetry, identity, listen=("127.0.0.1", port), **more)
        stop = asyncio.Event()
        task = asyncio.create_task(run(wanted, stop))
        try:
            yield port
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)

    return started


@pytest.fixture
def labels(api: ApiServer) -> Callable[..., Any]:
    """labels("n1"): what the API server holds of ours on a node."""

    def of(name: str) -> dict[str, str]:
        found = api.objects.get(_node(name))["metadata"].get("labels") or {}
        return {key: value for key, value in found.items() if key != "kubernetes.io/hostname"}

    return of


def _node(name: str) -> Any:
    from testbed.apiobjects import place_of

    return place_of(f"/api/v1/nodes/{name}")
