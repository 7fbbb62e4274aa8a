"""What an agent reports, when, and what it does when etcd does not take it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agent.reporting import (
    MAX_BACKOFF_SECONDS,
    MAX_FIRST_BACKOFF_SECONDS,
    LoopLiveness,
    build_latency_record,
    build_reachability_record,
    worth_writing,
)
from leadsman.state import records
from leadsman.state.report_timing import ReportTiming
from leadsman.state.store import OutOfSpace, PreconditionFailed, StoreError, Unavailable, Unreachable, Write
from tests.agent.conftest import World


async def test_a_report_puts_all_records_in_one_transaction_under_the_lease(world: World) -> None:
    await world.reporter().report()
    stored, revisions = await world.stored(), await world.revisions()
    assert stored.keys() == {records.Identity, records.Heartbeat, records.Latency, records.Hardware}
    assert revisions["latency"] == revisions["hardware"] == revisions["heartbeat"]
    world.now += ReportTiming().lease_seconds + 1
    assert await world.stored() == {}


async def test_unchanged_records_are_not_written_again_and_the_heartbeat_is(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    before = await world.revisions()
    world.said[records.Hardware] = records.Hardware({"load1": 1.05})
    await reporter.report()
    after = await world.revisions()
    assert {kind for kind in after if after[kind] != before[kind]} == {"heartbeat"}
    world.said[records.Hardware] = records.Hardware({"load1": 2.0})
    await reporter.report()
    assert (await world.stored())[records.Hardware] == records.Hardware({"load1": 2.0})


async def test_what_is_not_known_any_more_goes(world: World) -> None:
    reporter = world.reporter()
    await reporter.report()
    world.said[records.Hardware] = None
    await reporter.report()
    assert records.Hardware not in await world.stored()


async def test_a_write_that_etcd_does_after_its_time_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of etcd that hangs keeps the request, and the next report goes to another member. No heartbeat guards
    the first write after a claim."""
    reporter = world.reporter()
    late: list[Callable[[], Awaitable[int]]] = []
    write = world.store.write

    async def hang(writes: Sequence[Write], *guards: Any) -> int:
        if len(writes) == 1:
            return await write(writes, *guards)  # the claim
        late.append(lambda: write(writes, *guards))
        raise Unavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write", hang)
        with pytest.raises(Unavailable):
            await reporter.report()
    await reporter.report()
    newest = await world.revisions()
    with pytest.raises(PreconditionFailed):
        await late[0]()
    assert await world.revisions() == newest


@pytest.mark.parametrize(
    ("error", "said_again"),
    [
        (Unavailable("no answer"), {"identity", "heartbeat", "latency", "hardware"}),
        (Unreachable("refused"), {"heartbeat"}),
    ],
    ids=["no answer", "refused"],
)
async def test_after_a_failed_write_everything_is_said_again_unless_etcd_took_no_connection(
    world: World, error: StoreError, said_again: set[str]
) -> None:
    """A write that was sent may have been done: comparing with what was said before it would keep a value that is not
    so. What was not sent costs no new claim: after a restart of etcd thousands of agents go on as they were."""
    reporter = world.reporter()
    await reporter.report()
    before = await world.revisions()
    world.store.fail(error)
    with pytest.raises(type(error)):
        await reporter.report()
    world.store.heal()
    await reporter.report()
    after = await world.revisions()
    assert {kind for kind in after if after[kind] != before[kind]} == said_again


async def test_all_is_said_again_to_an_etcd_that_was_restored_from_a_backup(world: World) -> None:
    """While it was away it took no connection. In the backup are the claim and its lease, and what was said then."""
    reporter = world.reporter()
    await reporter.report()
    backup = world.store.backup()
    world.said[records.Hardware] = records.Hardware({"load1": 2.0})
    await reporter.report()
    world.store.restore(backup)
    with pytest.raises(PreconditionFailed, match="restored"):
        await reporter.report()
    await reporter.report()
    assert (await world.stored())[records.Hardware] == records.Hardware({"load1": 2.0})


async def test_agents_that_start_together_claim_their_nodes_one_after_another(world: World) -> None:
    async def first_wait(seed: int) -> float:
        async def spread() -> float:
            return 30.0

        async def first(seconds: float) -> None:
            world.slept.append(seconds)
            raise asyncio.CancelledError

        world.slept = []
        with pytest.raises(asyncio.CancelledError):
            await world.reporter(sleep=first, spread=spread, seed=seed).run()
        return world.slept[0]

    waits = [await first_wait(seed) for seed in range(100)]
    assert 0 <= min(waits) < 3 < 27 < max(waits) <= 30


async def test_a_stalled_loop_lets_the_node_go_stale_and_vanish(world: World) -> None:
    reporter = world.reporter()
    world.rounds = 1
    await reporter.report()
    before = await world.revisions()
    world.now += 16
    await reporter.report()
    assert await world.revisions() == before
    world.now += 15
    assert await world.stored() == {}


@pytest.mark.parametrize(("push", "reports_a_renewal"), [(5.0, 1), (10.0, 3), (30.0, 3)])
async def test_a_lease_outlives_the_trust_in_the_last_report(
    world: World, monkeypatch: pytest.MonkeyPatch, push: float, reports_a_renewal: int
) -> None:
    """A node is stale before it vanishes, whichever report was its last. At 5 s it has vanished after 20 s."""
    world.timing, renewed, keep_alive = ReportTiming(push), list[int](), world.store.keep_alive
    reporter = world.reporter()

    async def renew(lease: int) -> None:
        renewed.append(lease)
        await keep_alive(lease)

    monkeypatch.setattr(world.store, "keep_alive", renew)
    for number in range(12):
        world.now += 1.1 * push
        world.rounds += 1
        await reporter.report()
        assert reporter.ownership is not None
        ends_in = max(each.expires_at for each in world.store._leases.values()) - world.now
        assert world.timing.stale_seconds < ends_in <= world.timing.lease_seconds, number
    assert len(renewed) == 11 // reports_a_renewal
    world.now += world.timing.lease_seconds
    assert await world.stored() == {}
    assert ReportTiming().lease_seconds == 20


@pytest.mark.parametrize(("grown", "is_claimed_again"), [(30.0, False), (35.0, True)])
async def test_a_lease_is_kept_while_the_cluster_grows_by_a_fifth(
    world: World, grown: float, is_claimed_again: bool
) -> None:
    """Whichever lease it is, a node is stale before it vanishes."""
    world.timing = ReportTiming(25.0)
    reporter = world.reporter()
    await reporter.report()
    claimed = (await world.revisions())["identity"]
    world.timing = ReportTiming(grown)
    for number in range(12):
        world.now += 1.1 * grown
        world.rounds += 1
        await reporter.report()
        assert max(each.expires_at for each in world.store._leases.values()) - world.now > 3 * grown, number
    assert ((await world.revisions())["identity"] > claimed) is is_claimed_again


PUSH_SECONDS = ReportTiming().push_interval_seconds


@pytest.mark.parametrize(
    ("failure", "later", "spread", "has_reported", "shortest", "longest"),
    [
        (Unavailable("no answer"), None, 0.0, False, 0.0, MAX_FIRST_BACKOFF_SECONDS),
        (Unreachable("down"), ReportTiming(push_interval_seconds=25.0), 0.0, False, 0.0, 5 * MAX_BACKOFF_SECONDS),
        (Unreachable("down"), None, 40.0, False, 0.0, 40.0),
        # One slow answer, as over a link that was cut, must not make it late once etcd answers again.
        (Unreachable("down"), None, 40.0, True, 0.0, MAX_BACKOFF_SECONDS),
        # No storm while it is full, and within the promise once it has room: docs/troubleshooting.md.
        (OutOfSpace("full"), None, 0.0, False, 0.9 * PUSH_SECONDS, 1.1 * PUSH_SECONDS),
    ],
    ids=["a first claim", "a large cluster", "a slow etcd", "one that has reported", "a full store"],
)
async def test_an_etcd_that_fails_is_tried_more_and_more_seldom_up_to_what_the_cluster_allows(
    world: World,
    failure: StoreError,
    later: ReportTiming | None,
    spread: float,
    has_reported: bool,
    shortest: float,
    longest: float,
) -> None:
    """Thousands may start on a ring that is still empty; their retries spread as their reports do."""

    async def spread_seconds() -> float:
        return spread

    async def sleep(seconds: float) -> None:
        await world.sleep(seconds)
        if len(world.slept) > 300:
            raise asyncio.CancelledError

    world.rounds = 1
    reporter = world.reporter(sleep=sleep, spread=spread_seconds)
    if has_reported:
        await reporter.report()
    world.store.fail(failure)
    world.timing = later or world.timing
    reporter._liveness.limit_seconds = 1e9
    with pytest.raises(asyncio.CancelledError):
        await reporter.run()
    assert reporter.failures[type(failure).__name__] == 300
    waits = world.slept[20:]
    assert 0.9 * longest < max(waits) <= longest
    assert shortest <= min(waits) <= max(1.1 * shortest, 0.1 * longest)


def test_a_loop_is_stalled_when_its_count_stands_beyond_the_limit() -> None:
    now, loops = [0.0], {"probes": SimpleNamespace(rounds=0), "hardware": SimpleNamespace(rounds=0)}
    progress = LoopLiveness(loops, 10.0, lambda: now[0])
    assert progress.stalled() == {}
    now[0], loops["probes"].rounds = 11.0, 1
    assert progress.stalled() == {"hardware": 11.0}
    loops["hardware"].rounds = 1
    assert progress.stalled() == {}


# What is worth a write.


def latency(
    p50: float = 10.0, p95: float = 12.0, received: int = 30, method: records.ProbeMethod = records.ProbeMethod.ICMP
) -> records.Latency:
    return records.Latency({"edge-2": records.PeerLatency(30, received, p50, p95, min(p50, 1.0), 0.1, method=method)})


@pytest.mark.parametrize(
    ("after", "written"),
    [
        (latency(), False),
        (latency(p50=10.4), False),
        (latency(p50=10.6), True),
        (latency(p95=15.5), True),
        (latency(received=29), False),
        (latency(received=27), True),
        (latency(method=records.ProbeMethod.TCP), True),
        (records.Latency({"edge-2": records.PeerLatency(30, 0)}), True),
        (records.Latency({**latency().peers, "edge-3": records.PeerLatency(1, 0)}), True),
    ],
)
def test_latency_is_written_when_it_moved_out_of_its_band(after: records.Latency, written: bool) -> None:
    assert worth_writing(latency(), after) is written


@pytest.mark.parametrize(
    ("name", "before", "after", "written"),
    [
        ("cpu_busy_ratio", 0.50, 0.51, False),
        ("cpu_busy_ratio", 0.10, 0.15, True),
        ("temperature_celsius", 5.0, 5.9, False),
        ("temperature_celsius", 5.0, 6.5, True),
        ("edac_uncorrectable_errors", 0.0, 1.0, True),
    ],
)
def test_hardware_is_written_when_a_value_left_its_band(name: str, before: float, after: float, written: bool) -> None:
    assert worth_writing(records.Hardware({name: before}), records.Hardware({name: after})) is written


def entry(x: float = 10.0, error: float = 0.2, reach_ms: float | None = 4.0, **more) -> records.RingEntry:
    there = records.RingCoordinate((x, 0.0, 0.0, 0.0), 0.5, 0.1, error)
    return records.RingEntry("10.0.0.1", **{"coordinate": there, "reach_ms": reach_ms, "near": ("a", "b")} | more)


@pytest.mark.parametrize(
    ("after", "written"),
    [
        (entry(), False),
        (entry(x=10.3), False),
        (entry(x=10.5), True),
        (entry(x=10.3, reach_ms=0.5), True),
        (entry(coordinate=records.RingCoordinate((10.0, 0.0, 0.0, 0.0), 1.0, 0.1, 0.2)), True),
        (entry(coordinate=records.RingCoordinate((10.0, 0.0, 0.0, 0.0), 0.5, 0.6, 0.2)), True),
        (entry(error=0.35), True),
        (entry(reach_ms=6.0), True),
        (entry(near=("a", "c")), False),
        (entry(near=("a", "b", "c")), True),
        (entry(coordinate=None), True),
        (records.RingEntry("10.0.0.2", entry().coordinate, 4.0, ("a", "b")), True),
    ],
)
def test_a_ring_entry_is_written_when_who_is_near_could_look_different(after: records.RingEntry, written: bool) -> None:
    assert worth_writing(entry(), after) is written


def test_reachability_is_written_when_a_peer_falls_silent_or_answers_and_not_while_it_stays_silent() -> None:
    def said(losses: int, age: float, fault: str = "") -> records.Reachability:
        return records.Reachability(
            {"a": 0, "b": losses}, {"b": records.PeerSilence(age)} if losses >= 3 else {}, 2, 1, fault
        )

    assert worth_writing(None, said(0, 0.0))
    assert not worth_writing(said(0, 0.0), said(2, 0.0))
    assert worth_writing(said(2, 0.0), said(3, 3.0))
    assert not worth_writing(said(3, 3.0), said(9, 9.0))
    assert worth_writing(said(9, 9.0), said(0, 0.0))
    assert worth_writing(said(9, 9.0), said(9, 9.0, "no peer has answered for 7 s"))
    assert not worth_writing(said(9, 9.0, "for 7 s"), said(9, 9.0, "for 8 s"))


# What is reported of peers fits one value, and what is left out makes no node dead.


def window(p50_ms: float) -> records.PeerLatency:
    return records.PeerLatency(30, 30, p50_ms, p50_ms + 1.123, p50_ms, 0.123, 0.5)


def test_of_names_as_long_as_kubernetes_allows_the_nearest_are_kept_and_those_that_somebody_asked_for() -> None:
    peers = {f"{n:02}-{'a' * 250}": window(n) for n in range(16)} | {"silent": records.PeerLatency(30, 0)}
    kept = build_latency_record(peers)
    records.encode_record(kept)
    assert list(kept.peers) == sorted(peers)[: len(kept.peers)]
    assert 8 < len(kept.peers) < 16
    far = f"15-{'a' * 250}"
    assert far in build_latency_record(peers, {far}).peers


def reachability(answering: list[str], silent: list[str]) -> records.Reachability:
    losses = dict.fromkeys(answering, 0) | dict.fromkeys(silent, 7)
    silences = {name: records.PeerSilence(123.456, 124.567) for name in silent}
    return records.Reachability(losses, silences, len(losses), len(answering))


def test_of_names_as_long_as_kubernetes_allows_silent_peers_are_left_out_first_and_the_counts_stay() -> None:
    answering, silent = [f"{n:02}-{'a' * 250}" for n in range(12)], [f"{n}-{'b' * 250}" for n in range(10)]
    kept = build_reachability_record(reachability(answering, silent))
    records.encode_record(kept)
    assert set(answering) < set(kept.losses)
    assert kept.silences.keys() == kept.silent_peers
    assert (kept.probed, kept.answering) == (22, 12)
