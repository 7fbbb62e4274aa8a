"""Builds and runs the telemetry sources that an operator chose: policies, and metric sources in order."""

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any, Self

import msgspec
from msgspec import Struct, structs
from prometheus_client import Metric

from leadsman.decision.inputs import DEFAULT_MAX_AGE_SECONDS, SnapshotMetrics, TasPolicies, TelemetryInputs
from leadsman.decision.telemetry.taspolicy import (
    MAX_SPEC_BYTES,
    TASPOLICY_GROUP,
    TASPOLICY_PLURAL,
    TASPOLICY_VERSION,
    BadTasPolicy,
    PolicyKey,
    RefusedPolicy,
    TasPolicy,
    check_spec_size,
    parse_taspolicy,
)
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectMeta
from leadsman.kube.resources import Resource
from leadsman.runtime.scrape import gauge
from leadsman.sources.source import follow
from leadsman.sources.telemetry import polling
from leadsman.sources.telemetry.polling import (
    POLL_INTERVAL_SECONDS,
    CustomMetricsSource,
    MetricPoller,
    PrometheusQueries,
    PrometheusSource,
    Samples,
)

# Follows the cluster's telemetry policies. An invalid one is refused, and its last good version stays in use.

TASPOLICY_RESOURCE = Resource(f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}", TASPOLICY_PLURAL)

log = logging.getLogger(__name__)


class BoundedJson:
    """Holds a spec or status of up to MAX_SPEC_BYTES: a policy may have 1.5 MiB, ten times as much in objects.

    value: None when it is larger. size_bytes: in JSON.
    """

    def __init__(self, value: object = None, size_bytes: int = 0) -> None:
        self.value, self.size_bytes = value, size_bytes

    @classmethod
    def reduced(cls, value: object) -> Self:
        """Reduces a JSON value to a spec or status (`leadsman.kube.decoding`)."""
        size_bytes = len(msgspec.json.encode(value))
        return cls(value if size_bytes <= MAX_SPEC_BYTES else None, size_bytes)


class TasPolicyObject(Struct, frozen=True):
    """A TASPolicy as the API server sends it. status: what PolicyStatusWriter compares with."""

    metadata: ObjectMeta
    spec: BoundedJson = BoundedJson()
    status: BoundedJson = BoundedJson()

    @property
    def key(self) -> PolicyKey:
        return PolicyKey(self.metadata.namespace, self.metadata.name)


class TasPolicyFollower:
    """Keeps the telemetry policies up to date. `run` it as one task.

    current: the policies; replaced and never altered.
    objects: the API server's objects.
    on_change: called after every change.
    """

    def __init__(self, client: ApiClient, on_change: Callable[[], None] = lambda: None) -> None:
        self._policies, self._on_change = TasPolicies(), on_change
        self.reflector = follow(client, ListOptions(TASPOLICY_RESOURCE), TasPolicyObject, self._changed)

    @property
    def current(self) -> TasPolicies:
        if not self._policies.loaded and self.reflector.loaded.is_set():
            self._policies = structs.replace(self._policies, loaded=True)
        return self._policies

    @property
    def objects(self) -> Mapping[tuple[str, str], TasPolicyObject]:
        return self.reflector.current

    def _changed(self, changes: Sequence[ObjectChange[TasPolicyObject]]) -> None:
        used, refused = dict(self._policies.used), dict(self._policies.refused)
        for change in changes:
            _apply(change, used, refused)
        loaded = self._policies.loaded
        self._policies = TasPolicies(MappingProxyType(used), MappingProxyType(refused), loaded)
        self._on_change()


def _apply(
    change: ObjectChange[TasPolicyObject], used: dict[PolicyKey, TasPolicy], refused: dict[PolicyKey, RefusedPolicy]
) -> None:
    policy = change.object
    refused_before = refused.pop(policy.key, None)
    if change.kind is ChangeType.DELETED:
        used.pop(policy.key, None)
        return
    try:
        used[policy.key] = parse_taspolicy(to_document(policy))
    except BadTasPolicy as error:
        refused[policy.key] = RefusedPolicy(error.problem, policy.metadata.generation)
        if refused[policy.key] != refused_before:
            meanwhile = "its last good version stays in use" if policy.key in used else "it has no effect"
            generation = policy.metadata.generation
            log.error("TASPolicy %s (generation %d) is invalid, %s: %s", policy.key, generation, meanwhile, error)


def to_document(policy: TasPolicyObject) -> Mapping[str, Any]:
    """Makes of the policy what `parse_taspolicy` takes. Raises BadTasPolicy when its spec is too large."""
    check_spec_size(policy.spec.size_bytes)
    meta = policy.metadata
    metadata = {"name": meta.name, "namespace": meta.namespace, "generation": meta.generation}
    return {"metadata": metadata, "spec": policy.spec.value}


AGENTS_SOURCE = "agents"
SOURCE_NAMES = (AGENTS_SOURCE, polling.CUSTOM_METRICS, polling.PROMETHEUS)


class TelemetrySettings(Struct, frozen=True):
    """Names the telemetry sources to follow.

    sources: some of SOURCE_NAMES; the first that knows a metric counts.
    api: the API server, for policies and custom metrics.
    prometheus: the URL, certificates and token of Prometheus; required by that source.
    queries: how Prometheus is queried.
    poll_interval_seconds: between two polls.
    age_seconds: how long a polled value counts, unless the policy says otherwise.
    """

    sources: tuple[str, ...]
    api: ApiAccess
    prometheus: ApiAccess | None = None
    queries: PrometheusQueries = PrometheusQueries()
    poll_interval_seconds: float = POLL_INTERVAL_SECONDS
    age_seconds: float = DEFAULT_MAX_AGE_SECONDS

    def __post_init__(self) -> None:
        """Raises ValueError when values would become too old between two polls that both succeed."""
        if self.age_seconds < 2 * self.poll_interval_seconds:
            raise ValueError(
                f"metric values count for {self.age_seconds:g} s (--metric-age-seconds) and are polled every "
                f"{self.poll_interval_seconds:g} s (--sync-seconds); they must count for two polls at least"
            )


_AGENT_METRICS = SnapshotMetrics()
"""The agents' own hardware metrics are part of the snapshot, so nothing is polled."""


class TelemetrySources:
    """Holds all telemetry sources of a process. `async with` it, run its tasks, and read `current`.

    pollers: source → its poller.
    """

    def __init__(self, settings: TelemetrySettings) -> None:
        self._stack = AsyncExitStack()
        self.api = ApiClient(settings.api)
        self.policies = TasPolicyFollower(self.api, self._poll_soon)
        queries: dict[str, Callable[[str], Awaitable[Samples]]] = {
            polling.CUSTOM_METRICS: CustomMetricsSource(self.api).query
        }
        if settings.prometheus is not None:
            client = ApiClient(settings.prometheus)
            self._stack.push_async_callback(client.close)
            queries[polling.PROMETHEUS] = PrometheusSource(client, settings.queries).query
        elif polling.PROMETHEUS in settings.sources:
            raise ValueError("telemetry source prometheus has no URL; write --telemetry prometheus=http://HOST:PORT")
        self._names = settings.sources
        self.pollers = {
            name: MetricPoller(
                name,
                queries[name],
                lambda: self.policies.current.metrics,
                interval_seconds=settings.poll_interval_seconds,
                age_seconds=settings.age_seconds,
            )
            for name in settings.sources
            if name != AGENTS_SOURCE
        }

    @property
    def current(self) -> TelemetryInputs:
        """Returns the newest policies and metrics."""
        tables = (self.pollers[name].current if name in self.pollers else _AGENT_METRICS for name in self._names)
        return TelemetryInputs(self.policies.current, tuple(tables))

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.api)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def tasks(self) -> Iterator[tuple[str, Coroutine[None, None, None]]]:
        """Yields the name and loop of each task; all run until cancelled."""
        yield "watch telemetry policies", self.policies.reflector.run()
        for name, poller in self.pollers.items():
            yield f"poll {name}", poller.run()

    def families(self) -> Iterator[Metric]:
        """Yields its metrics; a scrape reads memory only."""
        return telemetry_metrics(self.policies.current, self.pollers.values(), time.monotonic())

    def _poll_soon(self) -> None:
        for poller in self.pollers.values():
            poller.poll_soon()


def telemetry_metrics(policies: TasPolicies, pollers: Iterable[MetricPoller], now: float) -> Iterator[Metric]:
    """Makes the metrics of the policies and of each source. now: monotonic seconds, on the pollers' clock."""
    yield gauge(
        "leadsman_telemetry_policies",
        "Telemetry policies in use, and telemetry policies whose newest version was refused.",
        {"used": len(policies.used), "refused": len(policies.refused)},
        "state",
    )
    counts, ages = dict[tuple[str, str], int](), dict[str, float]()
    for poller in pollers:
        counts[poller.name, "read"] = len(poller.current.columns.keys() - poller.errors.keys())
        counts[poller.name, "failed"] = len(poller.errors)
        oldest = min((column.oldest_read_at for column in poller.current.columns.values()), default=now)
        ages[poller.name] = max(0.0, now - min(oldest, now))
    named = "Metrics that telemetry policies name, by whether the last poll read them."
    yield gauge("leadsman_telemetry_metrics", named, counts, "source", "state")
    read = "Seconds since the oldest value of the metric source was read."
    yield gauge("leadsman_telemetry_age_seconds", read, ages, "source")
