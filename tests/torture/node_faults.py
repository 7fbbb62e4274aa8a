"""Rows that break agents, their nodes, networks, sensors and clocks."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

from tests.torture.cluster import AGENT_PORT, Cluster
from tests.torture.log import Pushed
from tests.torture.rows import DEAD_NODE_SECONDS, Stage, row
from tests.torture.shape import AGENTS, CONTROLLERS, EXTENDER_A, LAST_AGENT, LAST_NODE, NODES

TWO_AGENTS = ("agent-edge-7", LAST_AGENT)


def _no_nft(_: Cluster) -> str:
    return "" if shutil.which("nft") else "no `nft`: apt-get install nftables"


@row(1, LAST_AGENT, lacks=_no_nft)
async def node_cut_from_etcd(stage: Stage) -> AsyncIterator[None]:
    """One node's packets to etcd are dropped until it is gone."""
    ports = ", ".join(str(member.port) for member in stage.cluster.etcd)
    with _filtered(stage.cluster, LAST_NODE, f"tcp dport {{ {ports} }} drop"):
        await _until_gone(stage)
        yield


async def _until_gone(stage: Stage, node: str = LAST_NODE) -> None:
    is_gone = partial(stage.recorder.is_gone, node, time.monotonic())
    await stage.measure(f"dead {node} gone", DEAD_NODE_SECONDS, is_gone)


@contextlib.contextmanager
def _filtered(cluster: Cluster, node: str, rule: str) -> Iterator[None]:
    """A rule of nftables for what leaves the node's namespace."""
    table, hook = "table inet torture", "type filter hook output priority 0;"
    command = cluster.net.command(cluster.host_of[node], ["nft", "-f", "-"])
    subprocess.run(command, input=f"{table} {{\nchain out {{\n{hook}\n{rule}\n}}\n}}\n", text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(command, input=f"delete {table}\n", text=True, check=True)


@row(1, LAST_AGENT)
async def agent_killed(stage: Stage) -> AsyncIterator[None]:
    """One agent is killed, as when it runs out of memory, and starts once its node is gone."""
    stage.cluster.kill(LAST_AGENT)
    await _until_gone(stage)
    yield
    await stage.cluster.restart(LAST_AGENT)


@row(1, *TWO_AGENTS)
async def two_nodes_at_once(stage: Stage) -> AsyncIterator[None]:
    """Two of eight agents are killed at one moment, and start once both nodes are gone."""
    stage.cluster.kill(*TWO_AGENTS)
    await asyncio.gather(*(_until_gone(stage, name.removeprefix("agent-")) for name in TWO_AGENTS))
    yield
    await stage.cluster.restart(*TWO_AGENTS)


@row(1, LAST_AGENT)
async def agent_frozen(stage: Stage) -> AsyncIterator[None]:
    """One agent is frozen until its node is gone."""
    stage.cluster.freeze(LAST_AGENT)
    await _until_gone(stage)
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
    """A second agent claims the same node; it must exit, once the first one has lived for a whole lease of 20 s."""
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
    cluster.host_of |= {"edge-3": cluster.host_of["edge-4"], "edge-4": cluster.host_of["edge-3"]}
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
    pushes = (each for each in reversed(stage.cluster.log) if isinstance(each, Pushed) and each.node == node)
    last = next((each.value for each in pushes if each.kind == "latency"), None)
    return (last or {}).get("peers", {})


@row(5, "agent-edge-6")
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
