"""Rows that break etcd or the lines of many processes to it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from urllib.error import HTTPError

from extender.app import FAILED_LISTING_GRACE_SECONDS
from leadsman.testbed.etcd import Etcd
from tests.torture.cluster import Cluster, as_base64
from tests.torture.rows import LEADER_SECONDS, Stage, row
from tests.torture.shape import ETCD, EXTENDER_B, LAST_AGENT


async def start_etcd(cluster: Cluster) -> None:
    for member in cluster.etcd:
        member.start(wait=False)
    for member in cluster.etcd:
        await asyncio.to_thread(member.wait_until_healthy)


def kill_etcd(cluster: Cluster) -> None:
    for member in cluster.etcd:
        member.kill()


def _kill_for(seconds: int) -> None:
    async def killed(stage: Stage) -> AsyncIterator[None]:
        kill_etcd(stage.cluster)
        yield
        await start_etcd(stage.cluster)

    killed.__name__ = f"etcd_killed_{seconds}_s"
    killed.__doc__ = f"All members of etcd are killed, and start after {seconds} s."
    row(seconds, ETCD)(killed)


for _seconds in (2, 14, 60):
    _kill_for(_seconds)


@row(3, ETCD, EXTENDER_B, LAST_AGENT)
async def etcd_away_at_start(stage: Stage) -> AsyncIterator[None]:
    """An agent and an extender start while etcd is away."""
    cluster = stage.cluster
    kill_etcd(cluster)
    cluster.kill(EXTENDER_B, LAST_AGENT)
    began = time.monotonic()
    limits_seconds = {LAST_AGENT: 10.0, EXTENDER_B: FAILED_LISTING_GRACE_SECONDS + 5}
    for name in limits_seconds:
        cluster.start(name)
    for name, limit_seconds in limits_seconds.items():
        await stage.measure(f"{name} ready without etcd", limit_seconds, partial(_is_ready, cluster, name), began)
    yield
    await start_etcd(cluster)


async def _is_ready(cluster: Cluster, name: str) -> bool:
    await cluster.until_ready(name)
    return True


@row(6, ETCD)
async def etcd_hangs_6_s(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are frozen for 6 s."""
    async with _frozen_etcd(stage.cluster):
        yield


@row(26, ETCD)
async def etcd_hangs_past_every_lease(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are frozen for 26 s, longer than a lease."""
    async with _frozen_etcd(stage.cluster):
        yield


@row(20, ETCD)
async def etcd_slow_disk(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd stand still for 0.2 s of every 0.5, as while a slow disk writes, for 20 s."""
    healed = asyncio.Event()
    stuttering = asyncio.create_task(_stutter(stage.cluster, healed))
    try:
        yield
    finally:
        healed.set()
        await stuttering


async def _stutter(cluster: Cluster, healed: asyncio.Event) -> None:
    while not healed.is_set():
        async with _frozen_etcd(cluster):
            await asyncio.sleep(0.2)
        await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def _frozen_etcd(cluster: Cluster) -> AsyncIterator[None]:
    """Beside the loop: a member that writes to the disk stops only when the disk is through."""
    for member in cluster.etcd:
        await asyncio.to_thread(member.freeze)
    try:
        yield
    finally:
        for member in cluster.etcd:
            member.thaw()


@row(4, ETCD)
async def etcd_leader_lost(stage: Stage) -> AsyncIterator[None]:
    """The leading member of etcd is killed."""
    leader = await asyncio.to_thread(_leader, stage.cluster)
    killed_at = time.monotonic()
    leader.kill()
    await stage.measure("an agent's report", LEADER_SECONDS, lambda: _reported(stage, killed_at), killed_at)
    yield
    await asyncio.to_thread(leader.start)


def _reported(stage: Stage, since: float) -> bool:
    return any(at > since + 0.5 for at in stage.recorder.last_push.values())


def _leader(cluster: Cluster) -> Etcd:
    for member in cluster.etcd:
        status = member.post("/v3/maintenance/status", {})
        if status["leader"] == status["header"]["member_id"]:
            return member
    raise RuntimeError("etcd has no leader")


@row(0, ETCD)
async def etcd_wiped(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are killed and start with nothing."""
    for member in stage.cluster.etcd:
        member.wipe()
    yield
    await start_etcd(stage.cluster)


@row(20, ETCD)
async def etcd_full(stage: Stage) -> AsyncIterator[None]:
    """etcd's quota is filled: NOSPACE for 20 s."""
    member = stage.cluster.etcd[0]
    await asyncio.to_thread(_fill, member.post)
    yield
    await asyncio.to_thread(_make_room, stage.cluster)


def _fill(post: Callable[[str, dict], dict]) -> None:
    value = as_base64(b"x" * 500_000)
    for number in range(200):
        try:
            post("/v3/kv/put", {"key": as_base64(f"/filler/{number}"), "value": value})
        except HTTPError:
            return
    raise RuntimeError("100 MB did not fill etcd")


def _make_room(cluster: Cluster) -> None:
    first = cluster.etcd[0]
    deleted = first.post("/v3/kv/deleterange", {"key": as_base64("/filler/"), "range_end": as_base64("/filler0")})
    first.post("/v3/kv/compaction", {"revision": deleted["header"]["revision"], "physical": True})
    for member in cluster.etcd:
        member.post("/v3/maintenance/defragment", {})
    for alarm in first.post("/v3/maintenance/alarm", {}).get("alarms", []):
        first.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})


@row(8, EXTENDER_B)
async def silent_line_to_etcd(stage: Stage) -> AsyncIterator[None]:
    """One extender's connections to etcd stay open and pass nothing for 8 s."""
    with _silence(stage.cluster):
        yield


@row(1, EXTENDER_B, ETCD)
async def watch_compacted(stage: Stage) -> AsyncIterator[None]:
    """One extender hears nothing while etcd compacts what it missed."""
    with _silence(stage.cluster):
        await asyncio.sleep(7)
        await asyncio.to_thread(_compact, stage.cluster)
        yield


@contextlib.contextmanager
def _silence(cluster: Cluster) -> Iterator[None]:
    for proxy in cluster.proxies:
        proxy.silence()
    yield
    for proxy in cluster.proxies:
        proxy.heal()


def _compact(cluster: Cluster) -> None:
    post = cluster.etcd[0].post
    post("/v3/kv/compaction", {"revision": post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]})
