"""The controller's process: it watches, plans and acts while it holds the Lease, and releases the Lease at the end."""

import asyncio
import contextlib
import logging

from aiohttp import web

from controller import metrics
from controller.parts import ControllerParts
from controller.settings import ControllerSettings
from leadsman.kube.errors import ApiError
from leadsman.runtime.http_server import serve
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
        await stack.enter_async_context(serve(_ops_app(parts), *settings.listen))
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


def _ops_app(parts: ControllerParts) -> web.Application:
    registry = create_registry(
        lambda: metrics.plan_metrics(parts.label_reconciler, parts.requeuer),
        lambda: metrics.write_metrics(parts.node_patcher, parts.event_recorder, parts.leader_elector),
        parts.families,
    )
    pages = {"node_health": parts.node_health, "self_healing": parts.self_healing, "device_health": parts.device_health}
    shown = {name: part.page for name, part in pages.items() if part is not None}
    return metrics.create_app(
        registry, parts.label_reconciler, shown, parts.not_ready_reasons, parts.step_runner.stalled
    )
