"""Takes a snapshot of a live cluster: follows every source until it is there, reads all of them once, and stops."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from leadsman.sources.cluster.cluster_follower import ClusterFollower
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.source import ListedSource
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state.report_timing import stale_seconds
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Store

STATE = "the state in etcd"
NO_ETCD = "no etcd was named (--etcd), so the agents' delays, hardware metrics and rewards are not there"

_STEP_SECONDS = 0.05


LISTING_SECONDS = 60.0
"""A first listing that is under way is waited for this long."""

FAILING_SECONDS = 10.0
"""A source that fails is tried again, and waited for so long."""

OPTIONAL_SECONDS = 2.0
"""One that fails, without which there is a snapshot: a cluster may have no TASPolicies at all."""


class CannotRead(ValueError):
    """A part without which there is no snapshot could not be read; the text says which, and why."""


async def take_snapshot(store: Store | None, settings: SourceSettings) -> ClusterSnapshot:
    """Reads the cluster, and the inputs of the extender's next decision, as they are now.

    store: etcd; None: the snapshot has no state, and says so.
    settings: with the API server. Estimates are not fitted.

    CannotRead without the whole cluster, or without the state where there is a store. What else is not there is named
    in the snapshot.
    """
    taken: ClusterSnapshot | CannotRead
    followed = FollowedSources(store, settings)
    assert followed.cluster is not None, "the API server is named"
    async with followed:
        cluster = ClusterFollower(followed.cluster.client)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop, name=name) for name, loop in followed.tasks()]
            tasks.append(group.create_task(cluster.run(), name="watch the cluster"))
            try:
                taken = await _taken(followed, cluster, store is not None)
            except CannotRead as error:
                taken = error
            for task in tasks:
                task.cancel()
    if isinstance(taken, CannotRead):
        raise taken
    return taken


async def _taken(followed: FollowedSources, cluster: ClusterFollower, has_store: bool) -> ClusterSnapshot:
    required: dict[str, ListedSource] = {STATE: followed.state} if has_store else {}
    required |= {f"the cluster's {each.list_options.resource.plural}": each for each in cluster.reflectors.values()}
    optional = {name: each for name, each in followed.listed_sources.items() if name != STATE}
    await _listed(required.values(), FAILING_SECONDS)
    if unread := _unread(required):
        raise CannotRead("; ".join(f"{name} could not be read: {why}" for name, why in unread.items()))
    await _listed(optional.values(), OPTIONAL_SECONDS)
    missing = _unread(optional)
    # What a listing shows may be of any age, so each agent must report once.
    beats = [state.heartbeat for state in followed.state.current.nodes.values() if state.heartbeat]
    longest = max((stale_seconds(each.push_interval_seconds) for each in beats), default=0.0)
    await _wait(lambda: not _count_provisional(followed), lambda: longest)
    await _wait(lambda: not _unanswered(followed), lambda: FAILING_SECONDS)
    missing |= _not_polled(followed)
    if not has_store:
        missing[STATE] = NO_ETCD
    if silent := _count_provisional(followed):
        missing["fresh reports"] = f"{silent} agents did not report while they were waited for"
    assert cluster.current is not None
    inputs = replace(followed.input_sources.current_inputs(), estimates=None)
    return ClusterSnapshot(cluster.current, inputs, round(time.time(), 3), missing)


async def _wait(is_done: Callable[[], bool], longest_seconds: Callable[[], float]) -> None:
    began = time.monotonic()
    while not is_done() and time.monotonic() - began < longest_seconds():  # noqa: ASYNC110 -- sources have no event
        await asyncio.sleep(_STEP_SECONDS)


async def _listed(sources: Iterable[ListedSource], failing_seconds: float) -> None:
    """Waits until each is listed, or was waited for long enough."""
    waiting = list(sources)
    await _wait(
        lambda: all(each.loaded.is_set() for each in waiting),
        lambda: max(
            failing_seconds if each.problem.text else LISTING_SECONDS for each in waiting if not each.loaded.is_set()
        ),
    )


def _unread(sources: Mapping[str, ListedSource]) -> dict[str, str]:
    return {name: each.problem.text or "no answer yet" for name, each in sources.items() if not each.loaded.is_set()}


def _count_provisional(followed: FollowedSources) -> int:
    now, nodes = time.monotonic(), followed.state.current.nodes
    return sum(state.freshness(now) is Freshness.PROVISIONAL for state in nodes.values())


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
