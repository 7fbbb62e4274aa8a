"""Runs a simulated cluster of one size: it settles, is measured for a minute, some agents join, one leaves."""

from collections.abc import Sequence
from random import Random
from statistics import fmean, median

from msgspec import Struct

from agent.peering.peer_selection import LOST_PEER_SECONDS
from leadsman.network import vivaldi
from leadsman.simulator.probing import ProbingSimulation, SimulatedAgent
from leadsman.simulator.synthetic_network import SyntheticNetwork
from leadsman.state import codec, keys
from leadsman.state.key_values import KeyRange
from leadsman.state.records import Latency

PEERS_PER_NODE = 16
MEASURED_SECONDS = 60.0
GIVE_UP_SECONDS = LOST_PEER_SECONDS + 60.0
SAMPLED_PAIRS = 2000
"""Random pairs on which the error of estimates is measured."""
CONVERGED_RATIO = 1.5
"""A new agent's coordinate has converged when its median error is at most so many times the others'."""
ERROR_FLOOR_RATIO = 0.05
"""An error that counts as converged in any case: half of a rack's noise."""


class Distribution(Struct, frozen=True):
    """Of one figure over all nodes."""

    mean: float
    p50: float
    p99: float
    most: float


class ProbingFigures(Struct, frozen=True):
    """What a run measured. Bytes are keys and values, before the gateway's base64. Seconds are virtual.

    None: not within GIVE_UP_SECONDS.
    """

    nodes: int
    estimated_nodes: float
    assumed_nodes: float
    probes_per_second: float
    sent_per_second: Distribution
    received_per_second: Distribution
    probed_by: Distribution
    written_bytes_per_second: float
    written_bytes_per_second_a_node: Distribution
    read_bytes_per_second: float
    read_bytes_per_second_a_node: Distribution
    calls_per_second: float
    median_relative_error: float
    p90_relative_error: float
    joined_reported_seconds: float | None
    joined_probed_seconds: float | None
    joined_placed_seconds: float | None
    left_forgotten_seconds: float | None


async def run_probing(nodes: int, settle_seconds: float = 240.0, newcomers: int = 10, seed: int = 1) -> ProbingFigures:
    """Runs a cluster of so many nodes and measures it."""
    world = ProbingSimulation(SyntheticNetwork(seed), PEERS_PER_NODE, seed)
    for number in range(nodes):
        world.join(f"node-{number:05}", 5.0)
    await world.run(settle_seconds - MEASURED_SECONDS)
    before = {name: _counts(agent) for name, agent in world.agents.items()}
    await world.run(settle_seconds)
    rates = {name: _rates(before[name], _counts(agent)) for name, agent in world.agents.items()}
    sent, written, read, calls = (list(column) for column in zip(*rates.values(), strict=True))
    errors, agents = _errors(world, seed), list(world.agents.values())
    received, probed_by = list(_received(world).values()), list(world.probed_by().values())
    estimated = median(agent.peer_refresher.selection.ring_size.nodes for agent in agents)
    assumed = median(agent.peer_refresher.assumed_nodes for agent in agents)
    joins = JoinTimer(world, newcomers, median(errors))
    await joins.run()
    return ProbingFigures(
        nodes,
        estimated,
        assumed,
        sum(sent),
        _distribution(sent),
        _distribution(received),
        _distribution(probed_by),
        sum(written),
        _distribution(written),
        sum(read),
        _distribution(read),
        sum(calls),
        median(errors),
        errors[len(errors) * 9 // 10],
        joins.median_seconds("reported"),
        joins.median_seconds("probed"),
        joins.median_seconds("placed"),
        await _seconds_until_forgotten(world),
    )


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


def _errors(world: ProbingSimulation, seed: int) -> list[float]:
    """Relative errors of the estimates of random pairs, ascending."""
    rng, names = Random(seed), list(world.agents)
    return sorted(_error(world, *rng.sample(names, 2)) for _ in range(SAMPLED_PAIRS))


def _error(world: ProbingSimulation, one: str, other: str) -> float:
    here, there = (world.agents[name].peer_refresher.own_coordinate.current for name in (one, other))
    truth = world.network.rtt_ms(one, other)
    return abs(vivaldi.estimate_ms(here, there) - truth) / truth


class JoinTimer:
    """Lets agents join and measures how long each step takes.

    reported: until the record of a new agent holds its peers.
    probed: until half as many agents as it probes itself probe it.
    placed: until its coordinate has converged.
    """

    def __init__(self, world: ProbingSimulation, count: int, usual_error: float) -> None:
        self.seconds_by_step: dict[str, list[float]] = {"reported": [], "probed": [], "placed": []}
        self._world, self._others = world, list(world.agents)
        self._good_enough = max(ERROR_FLOOR_RATIO, CONVERGED_RATIO * usual_error)
        self._joins = [world.join(f"new-{number}", 5.0) for number in range(count)]
        self._waiting = {(what, agent.name) for what in self.seconds_by_step for agent in self._joins}

    async def run(self) -> None:
        until = self._world.now + GIVE_UP_SECONDS
        while self._waiting and self._world.now < until:
            await self._world.run(self._world.now + 1)
            for what, name in [each for each in self._waiting if await self._reached(*each)]:
                self._waiting.discard((what, name))
                self.seconds_by_step[what].append(self._world.now - self._world.agents[name].joined_at)

    def median_seconds(self, what: str) -> float | None:
        """Median over the new agents; None when half of them never reached this step."""
        missing = len(self._joins) - len(self.seconds_by_step[what])
        ordered = [*sorted(self.seconds_by_step[what]), *[None] * missing]
        return ordered[len(ordered) // 2]

    async def _reached(self, what: str, name: str) -> bool:
        match what:
            case "reported":
                return await self._reported(name) >= min(PEERS_PER_NODE, len(self._others))
            case "probed":
                return self._world.probed_by()[name] >= min(PEERS_PER_NODE // 2, len(self._others))
            case _:
                sample = Random(name).sample(self._others, min(200, len(self._others)))
                return median(_error(self._world, name, other) for other in sample) <= self._good_enough

    async def _reported(self, name: str) -> int:
        """Number of peers in its record."""
        (listing,) = await self._world.store.read_ranges([KeyRange.single_key(keys.record_key(name, Latency))])
        return sum(len(codec.decode(Latency, item.value).peers) for item in listing.items)


async def _seconds_until_forgotten(world: ProbingSimulation) -> float | None:
    """Time until no agent probes a node that has left; None: not within GIVE_UP_SECONDS."""
    name, began = next(iter(world.agents)), world.now
    await world.leave(name)
    while world.now < began + GIVE_UP_SECONDS:
        if not any(name in agent.peers for agent in world.agents.values()):
            return world.now - began
        await world.run(world.now + 1)
    return None


def _distribution(values: list[float] | list[int]) -> Distribution:
    ordered = sorted(values)
    p50, p99 = (float(ordered[len(ordered) * share // 100]) for share in (50, 99))
    return Distribution(fmean(ordered), p50, p99, float(ordered[-1]))
