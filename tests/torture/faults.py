"""Rows that break a part: etcd, the lines to it, agents, nodes, the API server, extenders, controllers, clocks."""

import asyncio
import base64
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from urllib.error import HTTPError

from extender.readiness import FAILED_LISTING_GRACE_SECONDS
from leadsman.testbed.etcd import Etcd
from leadsman.testbed.fake_api_server import FakeApiServer
from tests.torture.cluster import AGENT_PORT, CALM_LOAD, HOT_LOAD, Cluster
from tests.torture.log import LeaseWritten
from tests.torture.rows import DEAD_NODE_SECONDS, LEADER_SECONDS, Stage, row
from tests.torture.shape import AGENTS, CONTROLLERS, EXTENDERS, NODES

ETCD = "etcd"
EXTENDER_A, EXTENDER_B = EXTENDERS
LAST_NODE = "edge-8"
LAST_AGENT = f"agent-{LAST_NODE}"


def _no_nft(_: Cluster) -> str:
    return "" if shutil.which("nft") else "no `nft`: apt-get install nftables"


# etcd.


async def _start_etcd(cluster: Cluster) -> None:
    for member in cluster.etcd:
        member.start(wait=False)
    for member in cluster.etcd:
        await asyncio.to_thread(member.wait_until_healthy)


def _kill_etcd(cluster: Cluster) -> None:
    for member in cluster.etcd:
        member.kill()


@row(2, ETCD)
async def etcd_killed_2_s(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are killed, and start after 2 s."""
    _kill_etcd(stage.cluster)
    yield
    await _start_etcd(stage.cluster)


@row(14, ETCD)
async def etcd_killed_14_s(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are killed, and start after 14 s."""
    _kill_etcd(stage.cluster)
    yield
    await _start_etcd(stage.cluster)


@row(60, ETCD)
async def etcd_killed_60_s(stage: Stage) -> AsyncIterator[None]:
    """All members of etcd are killed, and start after 60 s."""
    _kill_etcd(stage.cluster)
    yield
    await _start_etcd(stage.cluster)


@row(3, ETCD, EXTENDER_B, LAST_AGENT)
async def etcd_away_at_start(stage: Stage) -> AsyncIterator[None]:
    """An agent and an extender start while etcd is away."""
    cluster = stage.cluster
    _kill_etcd(cluster)
    cluster.kill(EXTENDER_B, LAST_AGENT)
    began = time.monotonic()
    limits_seconds = {LAST_AGENT: 10.0, EXTENDER_B: FAILED_LISTING_GRACE_SECONDS + 5}
    for name in limits_seconds:
        cluster.start(name)
    for name, limit_seconds in limits_seconds.items():
        await stage.measure(f"{name} ready without etcd", limit_seconds, partial(_is_ready, cluster, name), began)
    yield
    await _start_etcd(cluster)


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


@contextlib.asynccontextmanager
async def _frozen_etcd(cluster: Cluster) -> AsyncIterator[None]:
    for member in cluster.etcd:
        member.freeze()
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
    await _start_etcd(stage.cluster)


@row(20, ETCD)
async def etcd_full(stage: Stage) -> AsyncIterator[None]:
    """etcd's quota is filled: NOSPACE for 20 s."""
    member = stage.cluster.etcd[0]
    await asyncio.to_thread(_fill, member.post)
    yield
    await asyncio.to_thread(_make_room, stage.cluster)


def _fill(post: Callable[[str, dict], dict]) -> None:
    value = base64.b64encode(b"x" * 500_000).decode()
    for number in range(200):
        try:
            post("/v3/kv/put", {"key": _key(f"/filler/{number}"), "value": value})
        except HTTPError:
            return
    raise RuntimeError("100 MB did not fill etcd")


def _make_room(cluster: Cluster) -> None:
    first = cluster.etcd[0]
    deleted = first.post("/v3/kv/deleterange", {"key": _key("/filler/"), "range_end": _key("/filler0")})
    first.post("/v3/kv/compaction", {"revision": deleted["header"]["revision"], "physical": True})
    for member in cluster.etcd:
        member.post("/v3/maintenance/defragment", {})
    for alarm in first.post("/v3/maintenance/alarm", {}).get("alarms", []):
        first.post("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})


def _key(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# The lines to etcd.


@row(8, EXTENDER_B)
async def silent_line_to_etcd(stage: Stage) -> AsyncIterator[None]:
    """One extender's connections to etcd stay open and pass nothing for 8 s."""
    for proxy in stage.cluster.proxies:
        proxy.silence()
    yield
    for proxy in stage.cluster.proxies:
        proxy.heal()


@row(1, EXTENDER_B, ETCD)
async def watch_compacted(stage: Stage) -> AsyncIterator[None]:
    """One extender hears nothing while etcd compacts what it missed."""
    for proxy in stage.cluster.proxies:
        proxy.silence()
    await asyncio.sleep(7)
    await asyncio.to_thread(_compact, stage.cluster)
    yield
    for proxy in stage.cluster.proxies:
        proxy.heal()


def _compact(cluster: Cluster) -> None:
    post = cluster.etcd[0].post
    post("/v3/kv/compaction", {"revision": post("/v3/kv/range", {"key": "AA=="})["header"]["revision"]})


@row(1, LAST_AGENT, lacks=_no_nft)
async def node_cut_from_etcd(stage: Stage) -> AsyncIterator[None]:
    """One node's packets to etcd are dropped until it is gone."""
    ports = ", ".join(str(member.port) for member in stage.cluster.etcd)
    with _filtered(stage.cluster, LAST_NODE, f"tcp dport {{ {ports} }} drop"):
        await stage.measure("dead node gone", DEAD_NODE_SECONDS, partial(_is_gone, stage, time.monotonic()))
        yield


def _is_gone(stage: Stage, since: float) -> bool:
    return stage.recorder.is_gone(LAST_NODE, since)


@contextlib.contextmanager
def _filtered(cluster: Cluster, node: str, rule: str) -> Iterator[None]:
    """A rule of nftables for what leaves the node's namespace."""
    table, hook = "table inet torture", "type filter hook output priority 0;"
    command = cluster.net.command(cluster.host_of(node), ["nft", "-f", "-"])
    subprocess.run(command, input=f"{table} {{\nchain out {{\n{hook}\n{rule}\n}}\n}}\n", text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(command, input=f"delete {table}\n", text=True, check=True)


# Agents and nodes.


@row(1, LAST_AGENT)
async def agent_killed(stage: Stage) -> AsyncIterator[None]:
    """One agent is killed, as when it runs out of memory, and starts once its node is gone."""
    stage.cluster.kill(LAST_AGENT)
    await stage.measure("dead node gone", DEAD_NODE_SECONDS, partial(_is_gone, stage, time.monotonic()))
    yield
    await stage.cluster.restart(LAST_AGENT)


@row(1, LAST_AGENT)
async def agent_frozen(stage: Stage) -> AsyncIterator[None]:
    """One agent is frozen until its node is gone."""
    stage.cluster.freeze(LAST_AGENT)
    await stage.measure("dead node gone", DEAD_NODE_SECONDS, partial(_is_gone, stage, time.monotonic()))
    yield
    await stage.cluster.thaw(LAST_AGENT)


@row(3, *AGENTS)
async def all_agents_killed(stage: Stage) -> AsyncIterator[None]:
    """All agents are killed and start at once, as in a rollout without a limit."""
    stage.cluster.kill(*AGENTS)
    yield
    for name in AGENTS:
        stage.cluster.start(name)
    await stage.cluster.until_ready(*AGENTS)


@row(0, "agent-edge-2")
async def two_agents_on_one_node(stage: Stage) -> AsyncIterator[None]:
    """A second agent claims the same node; it must exit."""
    second = stage.cluster.second("agent-edge-2", "--listen", f"0.0.0.0:{AGENT_PORT + 1}", "--owner", "the-second")
    try:
        await stage.measure("the second agent exits", 30, lambda: second.child.poll() is not None)
        yield
    finally:
        second.kill()


@row(0, "agent-edge-3", "agent-edge-4")
async def addresses_swapped(stage: Stage) -> AsyncIterator[None]:
    """Two nodes restart, each with the other's address."""
    cluster, names = stage.cluster, ("agent-edge-3", "agent-edge-4")
    for name in names:
        cluster.terminate(name)
    await cluster.until(lambda: all(cluster.processes[name].child.poll() is not None for name in names), "they ended")
    cluster.swap_hosts("edge-3", "edge-4")
    yield
    await cluster.restart(*names)


@row(5, "agent-edge-7", lacks=_no_nft)
async def icmp_blocked(stage: Stage) -> AsyncIterator[None]:
    """One node's ICMP echo requests and replies are dropped."""
    with _filtered(stage.cluster, "edge-7", "meta l4proto { icmp, icmpv6 } drop"):
        await stage.measure("its peers measured by TCP", 45, lambda: _by_tcp(stage, "edge-7"))
        yield


def _by_tcp(stage: Stage, node: str) -> bool:
    peers = _last_peers(stage, node)
    return bool(peers) and all(window.get("method") == "tcp" and window.get("p50_ms") for window in peers.values())


def _last_peers(stage: Stage, node: str) -> dict:
    pushes = (entry for entry in reversed(stage.cluster.log) if getattr(entry, "kind", "") == "latency")
    last = next((entry for entry in pushes if entry.node == node), None)
    return (last.value or {}).get("peers", {}) if last else {}


@row(5, "agent-edge-6", alters=("edge-6",))
async def no_round_trips(stage: Stage) -> AsyncIterator[None]:
    """One node reaches etcd and none of its peers: unknown, not lost."""
    others = [node for node in NODES if node != "edge-6"]
    for node in others:
        stage.cluster.net.cut("edge-6", node)
    await stage.measure("its round trips unknown", 45, lambda: _all_unknown(stage, "edge-6"))
    yield
    for node in others:
        stage.cluster.net.set_delay("edge-6", node, abs(NODES["edge-6"] - NODES[node]))


def _all_unknown(stage: Stage, node: str) -> bool:
    """No probe counted as lost: a fault of this node's own says nothing about its peers."""
    return all(window.get("p50_ms") is None and window["sent"] == 0 for window in _last_peers(stage, node).values())


@row(12, "agent-edge-5")
async def sensor_hangs(stage: Stage) -> AsyncIterator[None]:
    """A temperature sensor of one node never answers: a FIFO."""
    zone = stage.cluster.host_root("edge-5") / "sys" / "class" / "thermal" / "thermal_zone0"
    zone.mkdir(parents=True, exist_ok=True)
    (zone / "type").write_text("cpu\n")
    (zone / "temp").unlink(missing_ok=True)
    os.mkfifo(zone / "temp")
    success = 'leadsman_collector_success{collector="thermal"} 0'
    await stage.measure("the collector flagged", 30, partial(_shows, stage, "agent-edge-5", success))
    yield
    with contextlib.suppress(OSError):
        os.close(os.open(zone / "temp", os.O_WRONLY | os.O_NONBLOCK))
    (zone / "temp").unlink()
    (zone / "temp").write_text("45000\n")


async def _shows(stage: Stage, process: str, line: str) -> bool:
    _, page = await stage.cluster.get(f"{stage.cluster.processes[process].ops_url}/metrics", 2.0)
    return line in page.decode()


# Clocks.


@row(12, "clocks", lacks=lambda cluster: cluster.clocks.missing)
async def wall_clocks_step(stage: Stage) -> AsyncIterator[None]:
    """The wall clocks of two agents, an extender and both controllers step by an hour to a day, to and fro."""
    steps = {"agent-edge-2": 3600.0, "agent-edge-3": -3600.0, EXTENDER_A: 86_400.0}
    steps |= dict(zip(CONTROLLERS, (-86_400.0, 7_200.0), strict=True))
    for process, offset in steps.items():
        stage.cluster.clocks.step(process, offset)
    yield
    for process in steps:
        stage.cluster.clocks.step(process, 0.0)


# The API server.


@row(15, "api")
async def api_server_silent(stage: Stage) -> AsyncIterator[None]:
    """The API server accepts connections and answers nothing for 15 s."""
    stage.cluster.api.call(lambda server: server.silence())
    yield
    stage.cluster.api.call(lambda server: server.heal())


@row(6, "api")
async def api_server_throttles(stage: Stage) -> AsyncIterator[None]:
    """The API server ends all watches and answers 429 with Retry-After."""
    for verb in ("list", "watch", "get", "update", "patch"):
        stage.cluster.api.call(partial(_throttle, verb=verb))
    stage.cluster.api.call(lambda server: server.end_watches())
    yield


def _throttle(server: FakeApiServer, verb: str) -> None:
    server.fail(verb, 429, times=10, retry_after_seconds=1)


@row(3, "api")
async def api_server_forgot(stage: Stage) -> AsyncIterator[None]:
    """The API server compacts, and answers 410 to every watch."""
    stage.cluster.api.call(lambda server: server.compact())
    stage.cluster.api.call(lambda server: server.fail_watches(410))
    yield


# Extenders and controllers.


@row(2, EXTENDER_A)
async def extender_killed(stage: Stage) -> AsyncIterator[None]:
    """One extender is killed under load, and starts after 2 s."""
    stage.cluster.kill(EXTENDER_A)
    yield
    await stage.cluster.restart(EXTENDER_A)


@row(8, EXTENDER_A)
async def extender_frozen(stage: Stage) -> AsyncIterator[None]:
    """One extender is frozen for 8 s under load."""
    stage.cluster.freeze(EXTENDER_A)
    yield
    await stage.cluster.thaw(EXTENDER_A)


@row(0, EXTENDER_B)
async def extender_restarted(stage: Stage) -> AsyncIterator[None]:
    """One extender is asked to stop, and starts again."""
    stage.cluster.terminate(EXTENDER_B)
    yield
    await stage.cluster.until(lambda: stage.cluster.processes[EXTENDER_B].child.poll() is not None, "it ended")
    await stage.cluster.restart(EXTENDER_B)


def _leader_controller(cluster: Cluster) -> str:
    writes = [entry for entry in cluster.log if isinstance(entry, LeaseWritten) and entry.holder]
    return writes[-1].writer if writes else CONTROLLERS[0]


@row(0, *CONTROLLERS)
async def leading_controller_killed(stage: Stage) -> AsyncIterator[None]:
    """The controller that leads is killed; the other must take the Lease over."""
    leader = _leader_controller(stage.cluster)
    stage.cluster.kill(leader)
    await stage.measure("another leader", 20, lambda: _leader_controller(stage.cluster) != leader)
    yield
    await stage.cluster.restart(leader)


@row(1, *CONTROLLERS)
async def leading_controller_frozen(stage: Stage) -> AsyncIterator[None]:
    """The controller that leads is frozen with marks to write, until the other leads, and wakes."""
    leader = _leader_controller(stage.cluster)
    _heat(stage.cluster, ("edge-5", "edge-6"), HOT_LOAD)
    stage.cluster.freeze(leader)
    await stage.measure("another leader", 20, lambda: _leader_controller(stage.cluster) != leader)
    yield
    await stage.cluster.thaw(leader)
    _heat(stage.cluster, ("edge-5", "edge-6"), CALM_LOAD)


@row(40, "load")
async def flapping_load(stage: Stage) -> AsyncIterator[None]:
    """The load of five nodes goes up and down past a policy's target every 6 s."""
    flapping = asyncio.create_task(_flap(stage.cluster, ("edge-1", "edge-2", "edge-3", "edge-4", "edge-5")))
    yield
    flapping.cancel()
    _heat(stage.cluster, tuple(NODES), CALM_LOAD)


async def _flap(cluster: Cluster, nodes: Sequence[str]) -> None:
    while True:
        for load in (HOT_LOAD, CALM_LOAD):
            _heat(cluster, nodes, load)
            await asyncio.sleep(6)


def _heat(cluster: Cluster, nodes: Sequence[str], load: float) -> None:
    for node in nodes:
        cluster.set_load(node, load)


@row(10, ETCD, "api")
async def everything_away(stage: Stage) -> AsyncIterator[None]:
    """etcd is killed and the API server silent: /metrics, health and neutral answers go on."""
    _kill_etcd(stage.cluster)
    stage.cluster.api.call(lambda server: server.silence())
    yield
    stage.cluster.api.call(lambda server: server.heal())
    await _start_etcd(stage.cluster)
