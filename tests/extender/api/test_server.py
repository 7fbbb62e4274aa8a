"""The listener as a process runs it: the page with its policy, and nothing of it on kube-scheduler's listener."""

import asyncio
from typing import cast

import aiohttp

from extender.app import create_app, create_ops_app
from extender.metrics import ExtenderMetrics
from leadsman.runtime.http_server import Health, serve
from leadsman.state.snapshot import Snapshot
from tests.extender.api.conftest import Api
from tests.extender.conftest import Fixed


async def test_a_history_is_kept_from_the_first_time_that_the_page_is_opened(api: Api) -> None:
    """At 5,000 nodes it takes 30 MiB, and a third of a second each minute."""
    running = asyncio.create_task(api.live.run())
    await api.get("/overview")
    assert api.live.history.is_empty
    running.cancel()
    async with api.session.get("/"):
        running = asyncio.create_task(api.live.run())
    async with asyncio.timeout(60):
        while api.live.history.is_empty:  # noqa: ASYNC110 -- what is waited for has no event
            await asyncio.sleep(0.01)
    running.cancel()


async def test_no_listener_knows_what_another_answers(api: Api) -> None:
    for verb in ("filter", "prioritize", "preempt", "bind", "scheduler/filter"):
        async with api.session.post(f"/{verb}", json={}) as response:
            assert response.status == 404
    sources = api.live.sources
    for app in (
        create_app(sources.inputs, metrics=ExtenderMetrics(), workers=sources.workers),
        create_ops_app(lambda: Health(True), ExtenderMetrics(), sources.workers),
    ):
        async with serve(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            for path in ("/api/v1/overview", "/"):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    assert response.status == 404


async def test_a_view_from_before_the_state_was_read_is_not_shown_afterwards(api: Api) -> None:
    state = cast(Fixed, api.live.sources.inputs.state)
    loaded, state.current = state.current, Snapshot()
    assert (await api.get("/nodes"))[1]["total"] == 0
    state.current = loaded
    assert (await api.get("/nodes"))[1]["total"] == 10
