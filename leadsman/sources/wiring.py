"""Builds and runs every source that a process decides on: state, policy file, cluster, delays and telemetry; and
gathers what a decision is made on, at the moment of a request."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec import Struct, field
from prometheus_client import Metric

from leadsman.decision.inputs import DecisionInputs, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.view import Views
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.reflector import Reflector
from leadsman.runtime.scrape import counter, gauge
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.sources.cluster.node_followers import NodeFollower
from leadsman.sources.cluster.self_healing_follower import BackupFollower, SelfHealingFollower
from leadsman.sources.cluster.workload_follower import WorkloadFollower
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.device_reservations import reserved_uids
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.source import Source
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings, TelemetrySources
from leadsman.state.follower import Follower
from leadsman.state.snapshot import Snapshot
from leadsman.state.store import Store

T = TypeVar("T")

# Metrics of what is followed on the API server. A scrape reads memory only.


def reflector_metrics(reflectors: Mapping[str, Reflector[Any]], now: float) -> Iterator[Metric]:
    """Makes the metrics of each reflector, by what it follows. now: monotonic seconds, on the reflectors' clock."""

    def of(count: Callable[[Reflector[Any]], float]) -> Mapping[str, float]:
        return {name: count(one) for name, one in reflectors.items()}

    held = of(lambda one: one.object_count)
    yield gauge("leadsman_apiserver_objects", "Objects held from list and watch.", held, "resource")
    yield gauge(
        "leadsman_apiserver_age_seconds",
        "Seconds since the API server last confirmed the list or watch.",
        {name: one.age_seconds(now) for name, one in reflectors.items() if one.loaded.is_set()},
        "resource",
    )
    first = "Complete lists, the first and after a lost watch."
    yield counter("leadsman_apiserver_relists", first, of(lambda one: one.relists), "resource")
    lost = "Watches that were lost and opened again."
    yield counter("leadsman_apiserver_reconnects", lost, of(lambda one: one.reconnects), "resource")
    ignored = "Objects that are ignored: they cannot be decoded."
    yield counter("leadsman_apiserver_problems", ignored, of(lambda one: one.decode_error_count), "resource")
    cut = "Versions of objects of whose many labels or annotations only those that are read are kept."
    yield counter("leadsman_apiserver_cut_objects", cut, of(lambda one: one.cut_count), "resource")
    errors = {(name, error): count for name, one in reflectors.items() for error, count in sorted(one.errors.items())}
    yield counter("leadsman_apiserver_errors", "Lists and watches that failed.", errors, "resource", "error")


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
        self.workloads = WorkloadFollower(self.client)
        self.nodes = NodeFollower(
            self.client, with_annotations=settings.node_annotations, with_addresses=bool(settings.delays.goldpinger_url)
        )
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


_ABSENT = DecisionInputs(Snapshot(), Policy(), 0.0)
"""Decisions know this of a source that is not there."""


class InputSources(Struct, frozen=True):
    """Holds every source of DecisionInputs. The first four are required; for the others, None: there is none of that
    kind.

    delays: what counts after the agents' reports, and the estimates.
    clock: monotonic seconds, on the clock of the state's ages.
    backups: for explanations; decisions do not see it.
    """

    state: Source[Snapshot]
    policy: PolicyFile
    delays: DelaySources
    clock: Callable[[], float]
    views: Views = field(default_factory=Views)
    workloads: WorkloadFollower | None = None
    nodes: NodeFollower | None = None
    telemetry: Source[TelemetryInputs] | None = None
    self_healing: SelfHealingFollower | None = None
    backups: BackupFollower | None = None
    devices: DeviceFollower | None = None

    def current_inputs(self) -> DecisionInputs:
        """Reads the newest value of each source; the nodes' labels are for plugins."""
        policy = self.policy.current
        return DecisionInputs(
            self.state.current,
            policy,
            self.clock(),
            self.views,
            _current(self.workloads, _ABSENT.workloads),
            tuple(view for source in self.delays.sources if (view := source.current) is not None),
            self.delays.estimator.current,
            node_roles=_ABSENT.node_roles if self.nodes is None else self.nodes.roles,
            telemetry=_current(self.telemetry, _ABSENT.telemetry),
            self_healing=_current(self.self_healing, _ABSENT.self_healing),
            last_round_trips=(self.self_healing or _ABSENT).last_round_trips,
            node_labels=self.nodes.labels if self.nodes and policy.plugins.are_used else None,
            devices=_current(self.devices, _ABSENT.devices),
        )


def _current(source: Source[T] | None, absent: T) -> T:
    return absent if source is None else source.current


class FollowedSources:
    """Holds all sources of one process. `async with` it, run its tasks, and read `input_sources`.

    store: None: the state is not followed.

    Raises UnusableFile when the policy or delay files cannot be used at start.
    """

    def __init__(self, store: Store | None, settings: SourceSettings) -> None:
        self._stack = contextlib.AsyncExitStack()
        self.state, self.policy_file = Follower(store), PolicyFile(settings.policy)
        self.cluster = ClusterSources(settings.api, settings, partial(reserved_uids, store)) if settings.api else None
        cluster = self.cluster
        self.delays = DelaySources(
            settings.delays, self.state, self.policy_file, lambda: cluster.nodes.addresses if cluster else {}
        )
        self.telemetry = TelemetrySources(settings.telemetry) if settings.telemetry else None
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
        state = self.state
        yield counter("leadsman_state_relists", "Times that the state was listed whole from etcd.", state.relists)
        reopened = "Times that the watch on the state was lost and opened again."
        yield counter("leadsman_state_reconnects", reopened, state.reconnects)
        yield from self.policy_file.families()
        yield from self.delays.families()
        if self.cluster:
            yield from self.cluster.families()
        if self.telemetry:
            yield from self.telemetry.families()
