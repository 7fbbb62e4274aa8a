"""What probing costs a node of a simulated cluster: it settles, is measured for a minute, and some agents join."""

import asyncio
from collections.abc import Sequence
from random import Random
from statistics import fmean, median

from agent.peering.peer_selection import LOST_PEER_SECONDS
from leadsman.network import vivaldi
from leadsman.state import keys
from leadsman.state.records import Latency, decode_record
from leadsman.state.store import KeyRange
from tests.simulated_agents import ProbingSimulation, SimulatedAgent, SyntheticNetwork

PEERS_PER_NODE = 16
MEASURED_SECONDS = 60.0
GIVE_UP_SECONDS = LOST_PEER_SECONDS + 60.0
SAMPLED_PAIRS = 2000
"""Random pairs on which the error of coordinates is measured."""
CONVERGED_RATIO = 1.5
"""A new agent's coordinate has converged when its median error is at most so many times the others'."""
ERROR_FLOOR_RATIO = 0.05
"""An error that counts as converged in any case: half of a rack's noise."""
NEVER = float("inf")

Figures = dict[str, float]
"""What was measured → its value. Rates are a second, bytes are keys and values before the gateway's base64, and seconds
are virtual; NEVER: not within GIVE_UP_SECONDS."""


def run_probing(nodes: int, settle_seconds: float = 240.0, newcomers: int = 10, seed: int = 1) -> Figures:
    """Runs a cluster of so many nodes and measures it, but for what a node that leaves costs."""
    return asyncio.run(_run_probing(nodes, settle_seconds, newcomers, seed))


async def _run_probing(nodes: int, settle_seconds: float, newcomers: int, seed: int) -> Figures:
    world = await _settled(nodes, settle_seconds - MEASURED_SECONDS, seed)
    before = {name: _counts(agent) for name, agent in world.agents.items()}
    await world.run(settle_seconds)
    rates = [_rates(before[name], _counts(agent)) for name, agent in world.agents.items()]
    sent, written, read, calls = (list(column) for column in zip(*rates, strict=True))
    rng, names, agents = Random(seed), list(world.agents), list(world.agents.values())
    errors = sorted(_error(world, *rng.sample(names, 2)) for _ in range(SAMPLED_PAIRS))
    figures = {
        "nodes, estimated": median(agent.peer_refresher.selection.ring_size.nodes for agent in agents),
        "nodes, assumed": median(agent.peer_refresher.assumed_nodes for agent in agents),
        "probes, all": sum(sent),
        **_spread("probes sent", sent),
        **_spread("probes received", list(_received(world).values())),
        **_spread("probed by", list(world.probed_by().values())),
        **_spread("bytes written", written),
        **_spread("bytes read", read),
        **_spread("calls to etcd", calls),
        "error of coordinates, median": median(errors),
        "error of coordinates, p90": errors[len(errors) * 9 // 10],
    }
    return figures | await _joins(world, newcomers, median(errors))


def seconds_until_forgotten(nodes: int, settle_seconds: float = 60.0, seed: int = 1) -> float:
    """Time until no agent probes a node that has left."""

    async def run() -> float:
        world = await _settled(nodes, settle_seconds, seed)
        name, began = next(iter(world.agents)), world.now
        await world.leave(name)
        while any(name in agent.peers for agent in world.agents.values()):
            if world.now >= began + GIVE_UP_SECONDS:
                return NEVER
            await world.run(world.now + 1)
        return world.now - began

    return asyncio.run(run())


async def _settled(nodes: int, seconds: float, seed: int) -> ProbingSimulation:
    world = ProbingSimulation(SyntheticNetwork(seed), PEERS_PER_NODE, seed)
    for number in range(nodes):
        world.join(f"node-{number:05}", 5.0)
    await world.run(seconds)
    return world


def _counts(agent: SimulatedAgent) -> tuple[float, float, float, float]:
    agent.count_probes()
    return agent.sent, agent.meter.written_bytes, agent.meter.read_bytes, agent.meter.calls


def _rates(before: Sequence[float], after: Sequence[float]) -> tuple[float, ...]:
    return tuple((b - a) / MEASURED_SECONDS for a, b in zip(before, after, strict=True))


def _received(world: ProbingSimulation) -> dict[str, float]:
    """Probes a second that reach each node."""
    found = dict.fromkeys(world.agents, 0.0)
    for agent in world.agents.values():
        for name in agent.measured_peers():
            found[name] += 1 / agent.interval_seconds
    return found


def _spread(name: str, values: Sequence[float]) -> Figures:
    """Of one figure over all nodes."""
    ordered = sorted(values)
    p99 = ordered[len(ordered) * 99 // 100]
    return {f"{name}, mean": fmean(ordered), f"{name}, p99": p99, f"{name}, most": ordered[-1]}


def _error(world: ProbingSimulation, one: str, other: str) -> float:
    here, there = (world.agents[name].peer_refresher.own_coordinate.current for name in (one, other))
    truth = world.network.rtt_ms(one, other)
    return abs(vivaldi.estimate_ms(here, there) - truth) / truth


async def _joins(world: ProbingSimulation, newcomers: int, usual_error: float) -> Figures:
    """Lets agents join, and how long each step takes the median one.

    reported: until its record holds its peers. probed: until half as many agents as it probes itself probe it. placed:
    until its coordinate has converged.
    """
    others, until = list(world.agents), world.now + GIVE_UP_SECONDS
    enough, good = min(PEERS_PER_NODE, len(others)), max(ERROR_FLOOR_RATIO, CONVERGED_RATIO * usual_error)
    joined = [world.join(f"new-{number}", 5.0) for number in range(newcomers)]
    took: dict[str, dict[str, float]] = {"reported": {}, "probed": {}, "placed": {}}
    while world.now < until and any(len(seconds) < newcomers for seconds in took.values()):
        await world.run(world.now + 1)
        probed_by = world.probed_by()
        for agent in joined:
            sample = Random(agent.name).sample(others, min(200, len(others)))
            reached = {
                "reported": await _reported_peers(world, agent.name) >= enough,
                "probed": probed_by[agent.name] >= min(PEERS_PER_NODE // 2, len(others)),
                "placed": median(_error(world, agent.name, other) for other in sample) <= good,
            }
            for step in (step for step, done in reached.items() if done):
                took[step].setdefault(agent.name, world.now - agent.joined_at)
    return {
        f"a new node is {step} after": median(seconds.get(agent.name, NEVER) for agent in joined)
        for step, seconds in took.items()
    }


async def _reported_peers(world: ProbingSimulation, name: str) -> int:
    """Number of peers in its record."""
    (listing,) = await world.store.read_ranges([KeyRange.single_key(keys.record_key(name, Latency))])
    return sum(len(decode_record(Latency, item.value).peers) for item in listing.items)
