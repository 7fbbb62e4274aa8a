"""`leadsman page`, with a stand-in for kubectl and a real listener of the page behind it."""

import asyncio
import sys
from collections.abc import Callable

import aiohttp

from leadsman.testbed.etcd import free_ports
from tests.extender.api.conftest import Api
from tests.extender.api.conftest import started as started_api
from tests.leadsman.cli.conftest import extender_pod


async def test_the_page_is_at_the_printed_address_until_kubectl_ends(kubectl: Callable[..., None]) -> None:
    (port,) = free_ports(1)
    """Of two replicas that of the one which decided last is shown."""
    async with started_api() as idle, started_api() as api:
        api.decide("cart-1")
        pods = [extender_pod("extender-a"), extender_pod("extender-b")]
        kubectl({"pods": pods}, {"extender-a": {"api": port_of(idle)}, "extender-b": {"api": port_of(api)}})
        command = [sys.executable, "-m", "leadsman.cli.main", "page", "--port", str(port)]
        page = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert page.stdout
        try:
            printed = (await page.stdout.readline()).decode()
            await page.stdout.readline()  # kubectl says that it forwards.
            async with aiohttp.ClientSession() as session, session.get(printed.split()[1]) as response:
                assert (response.status, (await response.text())[:15]) == (200, "<!DOCTYPE html>")
            async with aiohttp.ClientSession(printed.split()[1]) as session, session.get("/api/v1/decisions") as shown:
                assert (await shown.json())["total"] == 1
        finally:
            page.terminate()
            await page.wait()


def port_of(api: Api) -> int:
    return api.session._base_url.port or 0
