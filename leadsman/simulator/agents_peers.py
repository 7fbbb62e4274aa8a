"""The peers that agents choose over a network whose round trips are known: the real code, on a virtual clock."""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices, MeasuredPairs, build_pairs
from leadsman.simulator.probing import ProbingSimulation

SETTLE_SECONDS = 300.0
"""By then peers change no more than ever after: random ones in turn, near ones seldom."""
RANDOM_TURN_SECONDS = 240.0
"""The time in which an agent with 16 peers has replaced each random one."""


class KnownNetwork:
    """A ProbedNetwork of a matrix of milliseconds, sources as rows; 0 and NaN: no reply."""

    def __init__(self, rtt_ms: Floats) -> None:
        self.names = [f"node-{number:04}" for number in range(len(rtt_ms))]
        self._rtt_ms, self._number = rtt_ms, {name: number for number, name in enumerate(self.names)}

    def rtt_ms(self, one: str, other: str) -> float:
        found = float(self._rtt_ms[self._number[one], self._number[other]])
        return found if found > 0 else nan

    def zone(self, name: str) -> str:
        return ""


class ProbedPairs(NamedTuple):
    """Who probes whom: source[k] → target[k]."""

    source: Indices
    target: Indices

    def measured(self, rtt_ms: Floats) -> MeasuredPairs:
        """What they measure in this network."""
        return build_pairs(len(rtt_ms), self.source, self.target, rtt_ms[self.source, self.target])


async def agents_peers(rtt_ms: Floats, k: int, seed: int, moments: int = 1) -> Sequence[ProbedPairs]:
    """The peers of all agents at so many moments, RANDOM_TURN_SECONDS apart, the last first."""
    network = KnownNetwork(rtt_ms)
    world = ProbingSimulation(network, k, seed)
    for name in network.names:
        world.join(name, 5.0)
    found = []
    for moment in range(moments):
        await world.run(SETTLE_SECONDS + moment * RANDOM_TURN_SECONDS)
        peers = [[network.names.index(peer) for peer in world.agents[name].measured_peers()] for name in network.names]
        source = np.repeat(np.arange(len(peers)), [len(each) for each in peers])
        found.append(ProbedPairs(source, np.array([peer for each in peers for peer in each], np.intp)))
    return found[::-1]
