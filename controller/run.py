"""The controller's process: it watches, plans and acts while it holds the Lease, and releases the Lease at the end.

It serves /metrics, /healthz (no keeper is stalled), /readyz (what plans need is listed) and /plan.
"""

import asyncio
import contextlib
import logging

import msgspec
from aiohttp import web

from controller.parts import ControllerParts
from controller.settings import ControllerSettings
from leadsman.kube.errors import ApiError
from leadsman.runtime.http_server import Health, create_ops_app, good_unless, serve
from leadsman.runtime.process import finish_within, run_tasks
from leadsman.runtime.scrape import create_registry

log = logging.getLogger(__name__)

RELEASE_TIMEOUT_SECONDS = 3.0


async def run(settings: ControllerSettings, stop: asyncio.Event) -> None:
    """Runs a controller until `stop` is set.

    Raises OSError when the port is taken, and ValueError when settings do not fit together or a file (policy, delays)
    cannot be used at start.
    """
    parts = ControllerParts(settings)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(parts.store.close)
        for clients in (parts.followed_sources, parts.client, parts.lease_client, parts.health_client):
            await stack.enter_async_context(clients)
        if parts.device_health:
            await stack.enter_async_context(parts.device_health)
        stack.callback(parts.plugins.close)
        await stack.enter_async_context(serve(create_app(parts), *settings.listen))
        log.info(
            "serving %s on port %d",
            "the dry run's /plan" if settings.dry_run else "metrics, health and /plan",
            settings.listen[1],
        )
        try:
            await run_tasks(parts.loops(), stop)
        finally:
            if parts.leader_elector:  # The next leader need not wait for the Lease to expire.
                await finish_within(RELEASE_TIMEOUT_SECONDS, parts.leader_elector.release(), (ApiError,))
    log.info("controller stopped")


def create_app(parts: ControllerParts) -> web.Application:
    """Builds the application. A request reads memory only."""

    def healthz() -> Health:
        stalled = parts.keeper_loops.stalled()
        return good_unless(f"stalled: {', '.join(stalled)}" if stalled else "")

    def readyz() -> Health:
        return good_unless("\n".join(parts.not_ready_reasons()))

    async def plan(_: web.Request) -> web.Response:
        return web.json_response(text=msgspec.json.format(msgspec.json.encode(parts.page())).decode() + "\n")

    app = create_ops_app(create_registry(parts.families), healthz, readyz)
    app.router.add_get("/plan", plan)
    return app
