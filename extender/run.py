"""Runs the extender's process: it follows the state, answers kube-scheduler, and drains before it stops."""

import asyncio
import contextlib
import gc
import logging
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec import Struct

from extender.api.app import create_api_app
from extender.api.live import ApiSources, LiveState
from extender.app import Readiness, create_app, create_ops_app
from extender.body_limits import NAMES_FORM_LIMITS, NODE_FORM_LIMITS, BodyReader
from extender.decider import Decider, DecisionCore, is_brief
from extender.handlers import BIND_TIMEOUT_SECONDS
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.plugins.host import PluginEvents, PluginHost
from extender.record_queues import REQUESTS_PER_SECOND, BindFailureQueue, ProbeRequestQueue
from extender.recorder import Recorder
from extender.worker_pool import WorkerPool
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.http_server import Drain, serve
from leadsman.runtime.process import run_tasks
from leadsman.runtime.server_tls import ServerTls, TlsFiles, tls_metrics
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.device_reservations import DeviceReservations
from leadsman.sources.recording.segments import DEFAULT_RING_BYTES
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore

log = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.001
"""A thread keeps the interpreter for this long. With Python's 5 ms, the event loop waits 10 ms for each of its turns
while two decisions are computed."""


class ExtenderSettings(Struct, frozen=True):
    """Everything that an extender is started with.

    listen: host and port that kube-scheduler calls.
    ops_listen: host and port of metrics and health, always plain HTTP.
    policy: the policy file; None: the default policy.
    names_only: refuse bodies above 4 MiB, for a scheduler with nodeCacheCapable.
    api: the API server; None: workloads and node roles stay unknown.
    bind: offer the bind verb; needs `api`.
    tls: certificate files of `listen`; None: plain HTTP.
    probe_requests_per_second: most pairs a second that agents are asked to measure.
    delays: delay sources besides the agents.
    telemetry: where metrics of telemetry policies come from; None: no telemetry policies are followed.
    self_healing_namespace: of what the controller publishes of self-healing; "": it is off; needs `api`.
    devices: follow the devices of nodes and pods; needs `api`.
    drain_seconds: how long it still answers after it was told to stop.
    record: the folder that decided requests are recorded in; None: nothing is recorded.
    record_bytes: of that recording, at most.
    api_listen: loopback host and port of the API for people and the page, always plain HTTP.
    grafana_url: where the page links to for a pair's past, with {a} and {b} for the nodes' names; "": nowhere.
    own_pod: that Events about plugins are written on; None: none are written; needs `api`.
    """

    etcd: EtcdAccess
    listen: tuple[str, int] = ("0.0.0.0", 9001)
    ops_listen: tuple[str, int] = ("0.0.0.0", 9002)
    api_listen: tuple[str, int] = ("127.0.0.1", 9008)
    policy: Path | None = None
    names_only: bool = False
    api: ApiAccess | None = None
    bind: bool = False
    tls: TlsFiles | None = None
    probe_requests_per_second: int = REQUESTS_PER_SECOND
    delays: DelaySettings = DelaySettings()
    telemetry: TelemetrySettings | None = None
    self_healing_namespace: str = ""
    devices: bool = False
    drain_seconds: float = 0.0
    record: Path | None = None
    record_bytes: int = DEFAULT_RING_BYTES
    grafana_url: str = ""
    own_pod: ObjectReference | None = None


async def run(settings: ExtenderSettings, stop: asyncio.Event) -> None:
    """Runs an extender until `stop` is set, and drains it.

    Raises UnusableFile when a policy, delay or TLS file cannot be used, RingFolderError when the recording's folder
    cannot be, and OSError when a port is taken.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    parts = ExtenderParts(settings)
    gc.freeze()  # What is there now stays; looking through it again stopped answers for 48 ms.
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(parts.store.close)
        stack.callback(parts.workers.close)
        stack.callback(parts.plugins.close)
        if parts.recorder:
            parts.recorder.start()
            stack.callback(parts.recorder.close)
        await stack.enter_async_context(parts.followed)
        await stack.enter_async_context(serve(parts.ops_app(), *settings.ops_listen))
        port = await stack.enter_async_context(serve(parts.app(), *settings.listen, tls=parts.tls))
        log.info("answering kube-scheduler on port %d, metrics and health on port %d", port, settings.ops_listen[1])
        loops = {**parts.loops(), "drain": parts.drain.run(stop)}
        port = await stack.enter_async_context(serve(create_api_app(parts.live), *settings.api_listen))
        log.info("serving the page and the API on port %d", port)
        await run_tasks(loops, parts.drain.over)
    log.info("extender stopped")


class ExtenderParts:
    """Wires together everything that an extender consists of; nothing of it runs yet."""

    def __init__(self, settings: ExtenderSettings) -> None:
        self.settings = settings
        self.metrics, self.workers, self.journal = ExtenderMetrics(), WorkerPool(), Journal()
        self.store = EtcdStore(settings.etcd)
        self.followed = FollowedSources(self.store, _source_settings(settings))
        self.tls = ServerTls(settings.tls) if settings.tls else None
        self.probe_requests = ProbeRequestQueue(self.store, settings.probe_requests_per_second)
        self.bind_failures = BindFailureQueue(self.store)
        self.recorder = self._recorder(settings.record) if settings.record else None
        client = self.followed.cluster.client if self.followed.cluster else None
        self.plugin_events = PluginEvents(client, settings.own_pod) if client and settings.own_pod else None
        self.plugins = plugins = PluginHost(
            lambda: self.followed.policy_file.current,
            self.followed.input_sources.current_inputs,
            self.plugin_events.plugin_changed if self.plugin_events else None,
        )
        self.core = DecisionCore(plugins.filter_nodes, plugins.score_nodes, is_brief, plugins.fails_closed)
        devices = self.followed.input_sources.devices
        self.reservations = DeviceReservations(self.store, devices) if devices else None
        self.live = LiveState(self._api_sources())
        self.drain = Drain(settings.drain_seconds)
        self._readiness = Readiness(self.followed.listed_sources, time.monotonic(), self.followed.state.unconfirmed)
        shown = (self.followed, self.probe_requests, self.recorder, self.plugins, self.reservations)
        for part in shown:
            if part is not None:
                self.metrics.add_collector(part.families)
        if tls := self.tls:
            self.metrics.add_collector(lambda: tls_metrics(tls))

    def _recorder(self, folder: Path) -> Recorder:
        return Recorder(folder, self.settings.record_bytes, lambda: self.workers.is_busy)

    def app(self) -> web.Application:
        """Builds the application that answers kube-scheduler."""
        settings = self.settings
        binds = settings.api if settings.bind else None
        decider = Decider(
            self.followed.input_sources,
            journal=self.journal,
            metrics=self.metrics,
            workers=self.workers,
            core=self.core,
            request_probes=self.probe_requests.enqueue,
            observers=[self.recorder.observe] if self.recorder else [],
            reservations=self.reservations,
        )
        bodies = BodyReader(NAMES_FORM_LIMITS if settings.names_only else NODE_FORM_LIMITS)
        client = ApiClient(binds, deadline_seconds=BIND_TIMEOUT_SECONDS) if binds else None
        app = create_app(decider, bodies, client, self.bind_failures)
        app.on_response_prepare.append(self.drain.close_connection)
        return app

    def ops_app(self) -> web.Application:
        """Builds the application of metrics and health."""
        return create_ops_app(
            lambda: self._readiness.check(time.monotonic()), self.metrics, self.workers, lambda: self.drain.has_begun
        )

    def _api_sources(self) -> ApiSources:
        return ApiSources(
            self.followed.input_sources,
            self.journal,
            self.metrics,
            self.workers,
            wall_clock=time.time,
            policy_path=str(self.settings.policy or ""),
            plugins=lambda: self.plugins.plugins,
            core=self.core,
            request_probes=self.probe_requests.enqueue,
            reservations=self.reservations,
            grafana_url=self.settings.grafana_url,
            tls=self.tls,
        )

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        loops = {
            **dict(self.followed.tasks()),
            "write probe requests": self.probe_requests.run(),
            "write bind failures": self.bind_failures.run(),
            "keep plugins running": self.plugins.run(),
            "keep the page's history": self.live.run(),
        }
        if self.plugin_events:
            loops["write Events"] = self.plugin_events.writer.run()
        if self.tls:
            loops["reload certificates"] = self.tls.follow()
        return loops


def _source_settings(settings: ExtenderSettings) -> SourceSettings:
    return SourceSettings(
        settings.policy,
        settings.api,
        settings.delays,
        settings.telemetry,
        settings.self_healing_namespace,
        settings.devices,
    )
