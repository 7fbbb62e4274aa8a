"""A client of a fake API server, Events that are written, and the controller's process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.run import run
from controller.settings import ControllerSettings
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess as StoreAccess
from leadsman.testbed.etcd import free_ports
from tests.controller.followed import event_writer
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

WITHIN_SECONDS = 60.0


@pytest.fixture
async def client(api: FakeApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=15.0) as one:  # less than a refused eviction waits
        yield one


@pytest.fixture
async def recorder(client: ApiClient) -> AsyncIterator[EventWriter]:
    one = event_writer(client)
    async with running(one.run()):
        yield one


@asynccontextmanager
async def started(api: FakeApiServer, **more: Any) -> AsyncIterator[int]:
    """A process in this loop, without an etcd; it listens, and has left when the block ends. Yields its port."""
    (port,) = free_ports(1)
    telemetry = TelemetrySettings(("agents",), ApiAccess(api.url))
    store = StoreAccess(("http://127.0.0.1:1",))
    stop, settings = asyncio.Event(), ControllerSettings(store, telemetry, "one", listen=("127.0.0.1", port), **more)
    task = asyncio.create_task(run(settings, stop))
    try:
        await until(lambda: task.done() or _listens(port))
        yield port
    finally:
        stop.set()
        await asyncio.wait_for(task, WITHIN_SECONDS)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
