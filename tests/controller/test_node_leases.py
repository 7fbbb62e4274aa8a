"""Leases are stamped by our own clock, and a direct read confirms only what it saw."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from controller.node_health import NodeLeases
from leadsman.kube.client import ApiClient
from leadsman.planning.failover.node_verdict import LeaseView
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.api_objects import parse_path
from tests.conftest import Until
from tests.testbed.scripted_api_server import FakeApiServer

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Followed:
    """The Leases of a fake API server, with a clock that the test moves."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.now, self._api = 100.0, api
        self.leases = NodeLeases(client, TokenBucket(0.0, 2, lambda: self.now), lambda: self.now)

    def renew(self, node: str, at: str = "t0") -> dict[str, Any]:
        return self._api.put(f"{PATH}/{node}", {"spec": {"leaseDurationSeconds": 40, "renewTime": at}})

    @property
    def view(self) -> LeaseView | None:
        return self.leases.current.get("n1")


@pytest.fixture
async def followed(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Followed]:
    one = Followed(api, client)
    one.renew("n1")
    task = asyncio.create_task(one.leases.reflector.run())
    await asyncio.wait_for(one.leases.reflector.loaded.wait(), 60)
    yield one
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_renewal_is_stamped_by_our_own_clock_and_another_change_is_not(
    followed: Followed, api: FakeApiServer, until: Until
) -> None:
    followed.now = 110.0
    followed.renew("n1", "t1")
    await until(lambda: followed.view == LeaseView(40.0, 110.0))
    followed.now = 120.0
    api.put(f"{PATH}/n1", {"metadata": {"labels": {"x": "y"}}, "spec": {"leaseDurationSeconds": 40, "renewTime": "t1"}})
    followed.renew("n2")
    await until(lambda: "n2" in followed.leases.current)
    assert followed.view == LeaseView(40.0, 110.0)


async def test_a_direct_read_of_a_newer_version_confirms_nothing(
    followed: Followed, api: FakeApiServer, until: Until
) -> None:
    await until(lambda: api.watches == 1)
    api.objects.put(parse_path(f"{PATH}/n1"), {"spec": {"renewTime": "t1"}})  # The watch hears of it after the read.
    await followed.leases.confirm(["n1"])
    assert followed.view is not None
    assert followed.view.confirmed_at is None
