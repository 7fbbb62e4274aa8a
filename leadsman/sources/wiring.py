"""Builds and runs every source that a process decides on: state, policy file, cluster, delays and telemetry."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.reflector import Reflector
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.sources.cluster.node_followers import NodeAddressFollower, NodeFollower
from leadsman.sources.cluster.self_healing_follower import BackupFollower, SelfHealingFollower
from leadsman.sources.cluster.workload_follower import WorkloadFollower
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.device_reservations import reserved_uids
from leadsman.sources.input_sources import InputSources
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings, TelemetrySources
from leadsman.state.follower import Follower
from leadsman.state.store import Store

# Metrics of what is followed on the API server. A scrape reads memory only.

_RESOURCE = ["resource"]


def reflector_metrics(reflectors: Mapping[str, Reflector[Any]], now: float) -> Iterator[Metric]:
    """Makes the metrics of each reflector, by what it follows. now: monotonic seconds, on the reflectors' clock."""
    held = GaugeMetricFamily("leadsman_apiserver_objects", "Objects held from list and watch.", labels=_RESOURCE)
    age = GaugeMetricFamily(
        "leadsman_apiserver_age_seconds",
        "Seconds since the API server last confirmed the list or watch.",
        labels=_RESOURCE,
    )
    counters = (
        CounterMetricFamily(
            "leadsman_apiserver_relists", "Complete lists, the first and after a lost watch.", labels=_RESOURCE
        ),
        CounterMetricFamily(
            "leadsman_apiserver_reconnects", "Watches that were lost and opened again.", labels=_RESOURCE
        ),
        CounterMetricFamily(
            "leadsman_apiserver_problems", "Objects that are ignored: they cannot be decoded.", labels=_RESOURCE
        ),
        CounterMetricFamily(
            "leadsman_apiserver_cut_objects",
            "Versions of objects of whose many labels or annotations only those that are read are kept.",
            labels=_RESOURCE,
        ),
    )
    errors = CounterMetricFamily(
        "leadsman_apiserver_errors", "Lists and watches that failed.", labels=["resource", "error"]
    )
    for name, one in reflectors.items():
        held.add_metric([name], one.object_count)
        counts = (one.relists, one.reconnects, one.decode_error_count, one.cut_count)
        for counter, count in zip(counters, counts, strict=True):
            counter.add_metric([name], count)
        if one.loaded.is_set():
            age.add_metric([name], one.age_seconds(now))
        for error, count in sorted(one.errors.items()):
            errors.add_metric([name, error], count)
    yield from (held, age, *counters, errors)


class SourceSettings(Struct, frozen=True):
    """Names the sources to follow.

    policy: the policy file; None: the default policy.
    api: the API server; None: workloads and node roles stay unknown.
    delays: delay sources besides the agents.
    telemetry: None: no telemetry policies are followed.
    self_healing_namespace: of what the controller publishes of self-healing; "": it is not followed.
    devices: whether to follow the devices of nodes and pods.
    node_annotations: whether annotations of nodes are held too.
    claims: with devices, whether to follow ResourceSlices and ResourceClaims too, by which nodes are scored.
    """

    policy: Path | None = None
    api: ApiAccess | None = None
    delays: DelaySettings = DelaySettings()
    telemetry: TelemetrySettings | None = None
    self_healing_namespace: str = ""
    devices: bool = False
    claims: bool = True
    node_annotations: bool = False


class ClusterSources:
    """Holds the sources on the API server. Enter `client`, then run the tasks.

    client: entering it raises ApiAccessError when the access cannot be used.
    reserved_uids: the pods that devices were reserved for, as DeviceFollower has it.
    """

    def __init__(
        self,
        access: ApiAccess,
        settings: SourceSettings = SourceSettings(),  # noqa: B008 -- frozen
        reserved_uids: Callable[[], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        self.client, namespace = ApiClient(access), settings.self_healing_namespace
        self.node_addresses = NodeAddressFollower(self.client) if settings.delays.goldpinger_url else None
        self.workloads = WorkloadFollower(self.client)
        self.nodes = NodeFollower(self.client, with_annotations=settings.node_annotations)
        self.self_healing = SelfHealingFollower(self.client, namespace) if namespace else None
        self.backups = BackupFollower(self.client, namespace) if namespace else None
        self.devices = (
            DeviceFollower(self.client, follows_claims=settings.claims, reserved_uids=reserved_uids)
            if settings.devices
            else None
        )

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yields the name and loop of each task; all run until cancelled."""
        yield "watch workload pods", self.workloads.run()
        yield "watch nodes", self.nodes.reflector.run()
        if self.node_addresses:
            yield "watch node addresses", self.node_addresses.reflector.run()
        if self.self_healing:
            yield "watch self-healing", self.self_healing.run()
        if self.backups:
            yield "watch backups", self.backups.reflector.run()
        if self.devices:
            yield "watch devices", self.devices.run()

    @property
    def reflectors(self) -> Mapping[str, Reflector[Any]]:
        """Returns the reflectors that decisions need, by the name that people read."""
        reflectors = {one.list_options.resource.plural: one for one in self.workloads.reflectors}
        reflectors["nodes"] = self.nodes.reflector
        if self.node_addresses:
            reflectors["addresses"] = self.node_addresses.reflector
        if self.self_healing:
            reflectors |= {"configmaps": self.self_healing.state, "placeholders": self.self_healing.placeholders}
        if self.devices:
            reflectors |= {"devices of nodes": self.devices.nodes, "devices of pods": self.devices.pods}
        return reflectors

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        if self.self_healing:
            yield from self.self_healing.families()
        if self.devices:
            yield from self.devices.families()
        yield from reflector_metrics(self.reflectors, time.monotonic())


class FollowedSources:
    """Holds all sources of one process. `async with` it, run its tasks, and read `input_sources`.

    store: None: the state is not followed.

    Raises UnusableFile when the policy or delay files cannot be used at start.
    """

    def __init__(self, store: Store | None, settings: SourceSettings) -> None:
        self._stack = contextlib.AsyncExitStack()
        self.state, self.policy_file = Follower(store), PolicyFile(settings.policy)
        self.cluster = ClusterSources(settings.api, settings, partial(reserved_uids, store)) if settings.api else None
        addresses = self.cluster.node_addresses if self.cluster else None
        self.delays = DelaySources(
            settings.delays, self.state, self.policy_file, lambda: addresses.current if addresses else {}
        )
        self.telemetry = TelemetrySources(settings.telemetry) if settings.telemetry else None
        cluster = self.cluster
        self.input_sources = InputSources(
            self.state,
            self.policy_file,
            self.delays,
            time.monotonic,
            workloads=cluster.workloads if cluster else None,
            nodes=cluster.nodes if cluster else None,
            telemetry=self.telemetry,
            self_healing=cluster.self_healing if cluster else None,
            backups=cluster.backups if cluster else None,
            devices=cluster.devices if cluster else None,
        )

    async def __aenter__(self) -> Self:
        """Raises ApiAccessError when the API server's access cannot be used."""
        if self.telemetry:
            await self._stack.enter_async_context(self.telemetry)
        if self.cluster:
            await self._stack.enter_async_context(self.cluster.client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yields the name and loop of each task; all run until cancelled."""
        yield "watch the state", self.state.run()
        yield "reload the policy file", self.policy_file.follow()
        yield from self.delays.tasks()
        if self.cluster:
            yield from self.cluster.tasks()
        if self.telemetry:
            yield from self.telemetry.tasks()

    @property
    def listed_sources(self) -> Mapping[str, Follower | Reflector[Any]]:
        """Returns the sources that are listed once and followed from there on, by a name that people read."""
        return {
            "the state in etcd": self.state,
            **(self.cluster.reflectors if self.cluster else {}),
            **({"taspolicies": self.telemetry.policies.reflector} if self.telemetry else {}),
        }

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        yield CounterMetricFamily(
            "leadsman_state_relists", "Times that the state was listed whole from etcd.", self.state.relists
        )
        yield CounterMetricFamily(
            "leadsman_state_reconnects",
            "Times that the watch on the state was lost and opened again.",
            self.state.reconnects,
        )
        yield from self.policy_file.families()
        yield from self.delays.families()
        if self.cluster:
            yield from self.cluster.families()
        if self.telemetry:
            yield from self.telemetry.families()
