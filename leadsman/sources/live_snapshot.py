"""Takes a snapshot of a live cluster: follows every source until it is there, reads all of them once, and stops."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.source import ListedSource
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state.report_timing import stale_seconds
from leadsman.state.snapshot import Freshness, Snapshot
from leadsman.state.store import Store

STATE = "the state in etcd"
NO_ETCD = "no etcd was named (--etcd), so the agents' delays, hardware metrics and rewards are not there"

_STEP_SECONDS = 0.05


class LiveLimits(Struct, frozen=True):
    """How long the sources are waited for.

    listing_seconds: for a first listing that is under way.
    failing_seconds: for one that fails and is tried again.
    optional_seconds: the same, for one without which there is a snapshot: a cluster may have no TASPolicies at all.
    """

    listing_seconds: float = 60.0
    failing_seconds: float = 10.0
    optional_seconds: float = 2.0


class CannotRead(ValueError):
    """A part without which there is no snapshot could not be read. Says which, and why."""


async def take_snapshot(
    store: Store | None,
    settings: SourceSettings,
    limits: LiveLimits = LiveLimits(),  # noqa: B008 -- frozen
    clock: Callable[[], float] = time.monotonic,
    unix_clock: Callable[[], float] = time.time,
) -> ClusterSnapshot:
    """The cluster, and the inputs of the extender's next decision, as they are now.

    store: etcd; None: the snapshot has no state, and says so.
    settings: with the API server. Estimates are not fitted.

    CannotRead without the whole cluster, or without the state where there is a store. What else is not there is named
    in the snapshot.
    """
    taken: ClusterSnapshot | CannotRead
    followed = FollowedSources(store, settings, clock)
    assert followed.cluster is not None, "the API server is named"
    async with followed:
        cluster = ClusterFollower(followed.cluster.client, clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop, name=name) for name, loop in followed.tasks()]
            tasks.append(group.create_task(cluster.run(), name="watch the cluster"))
            try:
                taken = await _taken(followed, cluster, store is not None, limits, clock, unix_clock)
            except CannotRead as error:
                taken = error
            for task in tasks:
                task.cancel()
    if isinstance(taken, CannotRead):
        raise taken
    return taken


async def _taken(
    followed: FollowedSources,
    cluster: ClusterFollower,
    has_store: bool,
    limits: LiveLimits,
    clock: Callable[[], float],
    unix_clock: Callable[[], float],
) -> ClusterSnapshot:
    required: dict[str, ListedSource] = {STATE: followed.state} if has_store else {}
    required |= {f"the cluster's {each.list_options.resource.plural}": each for each in cluster.reflectors.values()}
    optional = {name: each for name, each in followed.listed_sources.items() if name != STATE}
    await _listed(required.values(), limits.failing_seconds, limits, clock)
    if unread := _unread(required):
        raise CannotRead("; ".join(f"{name} could not be read: {why}" for name, why in unread.items()))
    await _listed(optional.values(), limits.optional_seconds, limits, clock)
    absent = _unread(optional)
    silent = await _provisional_nodes(followed, clock)
    await _polled(followed, limits, clock)
    missing = {**absent, **_not_polled(followed)}
    if not has_store:
        missing[STATE] = NO_ETCD
    if silent:
        missing["fresh reports"] = f"{silent} agents did not report while they were waited for"
    assert cluster.current is not None
    inputs = replace(followed.input_sources.current_inputs(), estimates=None)
    return ClusterSnapshot(cluster.current, inputs, round(unix_clock(), 3), missing)


def _unread(sources: Mapping[str, ListedSource]) -> dict[str, str]:
    return {name: each.problem.text or "no answer yet" for name, each in sources.items() if not each.loaded.is_set()}


async def _listed(
    sources: Iterable[ListedSource], failing_seconds: float, limits: LiveLimits, clock: Callable[[], float]
) -> None:
    """Until each is listed, or was waited for long enough."""
    began = clock()
    for source in sources:
        while not source.loaded.is_set():
            longest = failing_seconds if source.problem.text else limits.listing_seconds
            if clock() - began >= longest:
                break
            await asyncio.sleep(_STEP_SECONDS)


async def _provisional_nodes(followed: FollowedSources, clock: Callable[[], float]) -> int:
    """Waits until each agent has reported once, as what a listing shows may be of any age; those that did not."""
    began = clock()
    longest = max(map(stale_seconds, _push_intervals(followed.state.current)), default=0.0)
    while count := _count_provisional(followed.state.current, clock()):
        if clock() - began >= longest:
            return count
        await asyncio.sleep(_STEP_SECONDS)
    return 0


def _push_intervals(snapshot: Snapshot) -> Iterable[float]:
    return (state.heartbeat.push_interval_seconds for state in snapshot.nodes.values() if state.heartbeat)


def _count_provisional(snapshot: Snapshot, now: float) -> int:
    return sum(state.freshness(now) is Freshness.PROVISIONAL for state in snapshot.nodes.values())


async def _polled(followed: FollowedSources, limits: LiveLimits, clock: Callable[[], float]) -> None:
    """Until Goldpinger and the sources of metrics have answered or failed."""
    until = clock() + limits.failing_seconds
    while _unanswered(followed):
        if clock() >= until:
            return
        await asyncio.sleep(_STEP_SECONDS)


def _unanswered(followed: FollowedSources) -> bool:
    delays = any(source.current is None and not source.problem.text for source in followed.delays.sources)
    telemetry = followed.telemetry
    if telemetry is None:
        return delays
    metrics = telemetry.policies.current.metrics
    return delays or any(
        metrics - poller.current.columns.keys() - poller.errors.keys() for poller in telemetry.pollers.values()
    )


def _not_polled(followed: FollowedSources) -> Mapping[str, str]:
    pollers = followed.telemetry.pollers if followed.telemetry else {}
    metrics = {f"{metric} from {name}": why for name, each in pollers.items() for metric, why in each.errors.items()}
    return {
        **metrics,
        **{source.source: source.problem.text for source in followed.delays.sources if source.problem.text},
    }
