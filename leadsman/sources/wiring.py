"""Builds and runs every source that a process decides on: state, policy file, cluster, delays and telemetry."""

import contextlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, Metric

from leadsman.kube.access import ApiAccess
from leadsman.kube.reflector import Reflector
from leadsman.sources.cluster.cluster_sources import ClusterSources
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.device_reservations import reserved_uids
from leadsman.sources.input_sources import (
    InputSources,
    NoBackups,
    NoDeviceSource,
)
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings, TelemetrySources
from leadsman.state.follower import Follower
from leadsman.state.store import Store


class SourceSettings(Struct, frozen=True):
    """Which sources to follow.

    policy: the policy file; None: the default policy.
    api: the API server; None: workloads and node roles stay unknown.
    delays: delay sources besides the agents.
    telemetry: None: no telemetry policies are followed.
    self_healing_namespace: of what the controller publishes of self-healing; "": it is not followed.
    devices: whether to follow the devices of nodes and pods.
    claims: with devices, whether to follow ResourceSlices and ResourceClaims too, by which nodes are scored.
    """

    policy: Path | None = None
    api: ApiAccess | None = None
    delays: DelaySettings = DelaySettings()
    telemetry: TelemetrySettings | None = None
    self_healing_namespace: str = ""
    devices: bool = False
    claims: bool = True


class FollowedSources:
    """All sources of one process. `async with` it, run its tasks, and read `input_sources`.

    clock: monotonic seconds, for all of them.

    Raises UnusableFile when the policy or delay files cannot be used at start.
    """

    def __init__(self, store: Store, settings: SourceSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stack = clock, contextlib.AsyncExitStack()
        self.state, self.policy_file = Follower(store), PolicyFile(settings.policy)
        self.cluster = (
            ClusterSources(
                settings.api,
                bool(settings.delays.goldpinger_url),
                settings.self_healing_namespace,
                lambda: self.policy_file.current.plugins.are_used,
                settings.devices,
                settings.claims,
                partial(reserved_uids, store),
            )
            if settings.api
            else None
        )
        addresses = self.cluster.node_addresses if self.cluster else None
        self.delays = DelaySources(
            settings.delays, self.state, self.policy_file, lambda: addresses.current if addresses else {}
        )
        self.telemetry = TelemetrySources(settings.telemetry, clock) if settings.telemetry else None
        self.input_sources = self._input_sources()

    async def __aenter__(self) -> Self:
        """ApiAccessError when the API server's access cannot be used."""
        if self.telemetry:
            await self._stack.enter_async_context(self.telemetry)
        if self.cluster:
            await self._stack.enter_async_context(self.cluster.client)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Name and loop of each task; all run until cancelled."""
        yield "watch the state", self.state.run()
        yield "reload the policy file", self.policy_file.follow()
        yield from self.delays.tasks()
        if self.cluster:
            yield from self.cluster.tasks()
        if self.telemetry:
            yield from self.telemetry.tasks()

    @property
    def listed_sources(self) -> Mapping[str, Follower | Reflector[Any]]:
        """What is listed once and followed from there on, by a name that people read."""
        return {
            "the state in etcd": self.state,
            **(self.cluster.reflectors if self.cluster else {}),
            **({"taspolicies": self.telemetry.policies.reflector} if self.telemetry else {}),
        }

    def families(self) -> Iterator[Metric]:
        """For metrics."""
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

    def _input_sources(self) -> InputSources:
        return InputSources(
            self.state,
            self.policy_file,
            self._clock,
            workloads=self.cluster.workloads if self.cluster else None,
            node_roles=self.cluster.node_roles if self.cluster else None,
            delay_sources=tuple(self.delays.sources),
            estimate_source=self.delays.estimator,
            delay_status=self.delays,
            telemetry=self.telemetry,
            self_healing=self.cluster.self_healing if self.cluster else None,
            node_labels=self.cluster.node_labels if self.cluster else None,
            backups=(self.cluster and self.cluster.backups) or NoBackups(),
            devices=(self.cluster and self.cluster.devices) or NoDeviceSource(),
        )
