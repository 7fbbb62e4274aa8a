"""The extender's process: follows the state, answers the scheduler, and drains before it leaves."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import Struct

from apiserver.access import Access as ApiAccess
from apiserver.requests import Client
from clusterstate.etcd import EtcdStore
from clusterstate.transport import Access
from delays.chosen import Choice
from extender.app import create_app, create_ops_app
from extender.bind_failures import BindFailures
from extender.binding import DEADLINE_SECONDS
from extender.bodies import ANY_FORM, NAMES_ONLY, Bodies
from extender.connections import serve
from extender.metrics import Metrics
from extender.probe_requests import PER_SECOND, ProbeRequests
from extender.tls import Tls, TlsFiles
from extender.workers import Workers
from facts.gathering import Asked, Gathering
from telemetry.sources import TelemetrySettings

log = logging.getLogger(__name__)

_Loop = Coroutine[Any, Any, None]


class Settings(Struct, frozen=True):
    """listen: what kube-scheduler calls. ops_listen: metrics and health. Both are host and port.

    policy: None: the defaults. api: None: no API server, so no place of any workload is known. bind: offer the bind
    verb, with `api`. names_only: bodies above 4 MiB are refused, for a scheduler with nodeCacheCapable. tls: of
    `listen`; None: plain HTTP. `ops_listen` always is. probe_requests_per_second: pairs that agents are asked to
    measure, at most. delays: sources besides the agents. telemetry: None: no policies are followed.
    """

    etcd: Access
    listen: tuple[str, int] = ("0.0.0.0", 9001)
    ops_listen: tuple[str, int] = ("0.0.0.0", 9002)
    policy: Path | None = None
    names_only: bool = False
    api: ApiAccess | None = None
    bind: bool = False
    tls: TlsFiles | None = None
    probe_requests_per_second: int = PER_SECOND
    delays: Choice = Choice()
    telemetry: TelemetrySettings | None = None


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Until `stop`. A ValueError (PolicyError, BadMatrix, BadNames, TlsUnusable) when files cannot be used at start;
    OSError when a port is taken."""
    metrics, workers = Metrics(version("leadsman")), Workers()
    store = EtcdStore(settings.etcd)
    asked = Asked(settings.policy, settings.api, settings.delays, settings.telemetry)
    gathering = Gathering(store, asked)
    metrics.show(gathering.families)
    tls = Tls(settings.tls) if settings.tls else None
    probe_requests = ProbeRequests(store, settings.probe_requests_per_second)
    metrics.show(probe_requests.families)
    bodies = Bodies(NAMES_ONLY if settings.names_only else ANY_FORM)
    binding = Client(settings.api, deadline_seconds=DEADLINE_SECONDS) if settings.api and settings.bind else None
    binds = BindFailures(store)
    ask, sources = probe_requests.ask, gathering.sources
    app = create_app(sources, metrics=metrics, workers=workers, bodies=bodies, api=binding, ask=ask, binds=binds)
    ops = create_ops_app(gathering.state, metrics, workers, stop.is_set)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        stack.callback(workers.close)
        await stack.enter_async_context(gathering)
        await stack.enter_async_context(serve(ops, *settings.ops_listen))
        port = await stack.enter_async_context(serve(app, *settings.listen, tls=tls))
        log.info("answering kube-scheduler on port %d, metrics and health on port %d", port, settings.ops_listen[1])
        loops: list[tuple[str, _Loop]] = [
            *gathering.tasks(),
            ("ask for probes", probe_requests.run()),
            ("tell of binds", binds.run()),
        ]
        if tls:
            loops.append(("follow the certificates", tls.follow()))
        await _run_until(stop, loops)
    log.info("left")


async def _run_until(stop: asyncio.Event, loops: Sequence[tuple[str, _Loop]]) -> None:
    """Each as a task of its name; when one fails, all end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(loop, name=name) for name, loop in loops]
        await stop.wait()
        for task in tasks:
            task.cancel()
