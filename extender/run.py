"""The extender's process: it follows the state, answers kube-scheduler, and drains before it stops."""

import asyncio
import contextlib
import logging
import sys
import time
from pathlib import Path

from msgspec import Struct

from extender.api.replica_server import ReplicaServer
from extender.api.server import PageSettings, page_loops
from extender.api.sources import ApiSources
from extender.app import create_app, create_ops_app
from extender.bind_failures import BindFailureReporter
from extender.binding import BIND_TIMEOUT_SECONDS
from extender.body_limits import NAMES_FORM_LIMITS, NODE_FORM_LIMITS, BodyReader
from extender.brief_decisions import is_brief
from extender.config_page import add_config_page
from extender.decider import DecisionCore
from extender.device_grants import DeviceGrants
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.peers.replicas import ReplicaSettings
from extender.plugins.events import PluginEvents
from extender.plugins.host import PluginHost
from extender.probe_requests import REQUESTS_PER_SECOND, ProbeRequestQueue
from extender.readiness import Readiness
from extender.recorder import Recorder
from extender.shadow.page import add_page
from extender.shadow.shadow import Shadow
from extender.worker_pool import WorkerPool
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from leadsman.runtime.drain import Drain
from leadsman.runtime.http_server import serve
from leadsman.runtime.malloc_limits import limit_malloc
from leadsman.runtime.mutual_tls import MutualTls, TlsFiles
from leadsman.runtime.process import run_tasks
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.recording.segments import DEFAULT_RING_BYTES
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore

log = logging.getLogger(__name__)

SWITCH_INTERVAL_SECONDS = 0.001
"""For which a thread keeps the interpreter. With Python's 5 ms, the event loop waits 10 ms for each of its turns while
two decisions are computed."""


class ExtenderSettings(Struct, frozen=True):
    """What an extender is started with.

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
    shadow_policy: the file of a policy that is judged beside the live one; None: there is none.
    page: where the API for people and the page are served; None: they are not.
    own_pod: that Events about plugins are written on; None: none are written; needs `api`.
    replicas: the other extenders, whose journals are shown too; None: they are not asked.
    """

    etcd: EtcdAccess
    listen: tuple[str, int] = ("0.0.0.0", 9001)
    ops_listen: tuple[str, int] = ("0.0.0.0", 9002)
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
    shadow_policy: Path | None = None
    page: PageSettings | None = None
    own_pod: ObjectReference | None = None
    replicas: ReplicaSettings | None = None


async def run(settings: ExtenderSettings, stop: asyncio.Event) -> None:
    """Runs an extender until `stop` is set, and drains it.

    Raises UnusableFile when a policy, delay or TLS file cannot be used, RingFolderError when the recording's folder
    cannot be, and OSError when a port is taken.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    limit_malloc()
    metrics, workers = ExtenderMetrics(), WorkerPool()
    store = EtcdStore(settings.etcd)
    followed = FollowedSources(
        store,
        SourceSettings(
            settings.policy,
            settings.api,
            settings.delays,
            settings.telemetry,
            settings.self_healing_namespace,
            settings.devices,
        ),
    )
    metrics.add_collector(followed.families)
    tls = MutualTls(settings.tls) if settings.tls else None
    if tls:
        metrics.add_collector(tls.families)
    probe_requests = ProbeRequestQueue(store, settings.probe_requests_per_second)
    metrics.add_collector(probe_requests.families)
    bodies = BodyReader(NAMES_FORM_LIMITS if settings.names_only else NODE_FORM_LIMITS)
    api = ApiClient(settings.api, deadline_seconds=BIND_TIMEOUT_SECONDS) if settings.api and settings.bind else None
    bind_failures = BindFailureReporter(store)
    recorder = Recorder(settings.record, settings.record_bytes, lambda: workers.is_busy) if settings.record else None
    if recorder:
        metrics.add_collector(recorder.families)
    shadow = (
        Shadow(settings.shadow_policy, lambda: followed.policy_file.current, lambda: workers.is_busy)
        if settings.shadow_policy
        else None
    )
    if shadow:
        metrics.add_collector(shadow.families)
    plugin_events = PluginEvents(followed.cluster.client if followed.cluster else None, settings.own_pod)
    plugins = PluginHost(
        lambda: followed.policy_file.current,
        followed.input_sources.current_inputs,
        on_change=plugin_events.plugin_changed,
    )
    metrics.add_collector(plugins.families)
    device_grants = DeviceGrants(store, followed.input_sources.devices)
    metrics.add_collector(device_grants.families)
    replica_server = ReplicaServer(settings.replicas)
    core, journal = DecisionCore(plugins.filter_nodes, plugins.score_nodes, is_brief), Journal()
    app = create_app(
        followed.input_sources,
        core=core,
        metrics=metrics,
        workers=workers,
        journal=journal,
        bodies=bodies,
        api=api,
        request_probes=probe_requests.enqueue,
        bind_failures=bind_failures,
        tls_problem=tls.problem if tls else None,
        observers=[each.observe for each in (recorder, shadow) if each],
        device_grants=device_grants,
        replicas=replica_server.others,
    )
    api_sources = ApiSources(
        followed.input_sources,
        journal,
        metrics,
        workers,
        wall_clock=time.time,
        policy_path=str(settings.policy or ""),
        core=core,
        request_probes=probe_requests.enqueue,
        tls=tls,
        replicas=replica_server.others,
        replica_tls=replica_server.tls,
    )
    drain = Drain(settings.drain_seconds)
    app.on_response_prepare.append(drain.close_connection)
    readiness = Readiness(followed.listed_sources, time.monotonic())
    ops = create_ops_app(lambda: readiness.check(time.monotonic()), metrics, workers, lambda: drain.has_begun)
    add_config_page(ops, followed.policy_file, plugins)
    if shadow:
        add_page(ops, shadow)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        stack.callback(workers.close)
        stack.callback(plugins.close)
        if recorder:
            recorder.start()
            stack.callback(recorder.close)
        await stack.enter_async_context(followed)
        await stack.enter_async_context(serve(ops, *settings.ops_listen))
        port = await stack.enter_async_context(serve(app, *settings.listen, tls=tls))
        log.info("answering kube-scheduler on port %d, metrics and health on port %d", port, settings.ops_listen[1])
        loops = {
            **dict(followed.tasks()),
            **await stack.enter_async_context(replica_server.serving(api_sources)),
            **await stack.enter_async_context(page_loops(settings.page, api_sources)),
            "write probe requests": probe_requests.run(),
            "write bind failures": bind_failures.run(),
            "drain": drain.run(stop),
            "keep plugins running": plugins.run(),
            **plugin_events.loops(),
        }
        if tls:
            loops["reload certificates"] = tls.follow()
        if shadow:
            loops |= {"judge the shadow policy": shadow.run(), "reload the shadow policy": shadow.follow_policy()}
        await run_tasks(loops, drain.over)
    log.info("extender stopped")
