"""/metrics, /healthz and /readyz."""

import asyncio
import shutil
from asyncio.subprocess import PIPE

import pytest

from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Starter


async def test_while_draining_it_is_not_ready(starts: Starter) -> None:
    async with starts(ops=True, draining=lambda: True) as extender:
        assert await extender.get("/readyz") == (503, "draining\n")


async def test_it_is_not_healthy_once_every_worker_is_stuck(starts: Starter) -> None:
    async with starts(ops=True, workers=_Stuck()) as extender:
        assert await extender.get("/healthz") == (503, "all worker threads are past their deadline\n")


class _Stuck:
    exhausted, overdue = True, 16

    def close(self):
        pass


@pytest.mark.integration
@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: apt-get install prometheus")
async def test_promtool_finds_nothing_to_say(starts: Starter, measured: Snapshot) -> None:
    async with starts(measured, ops=True) as extender:
        extender.metrics.observe_request("filter", 200, 0.001)
        extender.metrics.count_decision("filter", "kept")
        _, page = await extender.get("/metrics")
    check = await asyncio.create_subprocess_exec("promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert await check.communicate(page.encode()) == (b"", b"")
    assert check.returncode == 0
