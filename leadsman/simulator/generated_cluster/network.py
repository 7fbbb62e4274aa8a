"""The delays of a generated cluster, and which nodes share a rack and a zone. Milliseconds, sources as rows."""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices
from leadsman.simulator.generated_cluster.spec import BadSpec, GeneratorSpec

SAME_RACK_MS, SAME_ZONE_MS = (0.06, 0.12), (0.15, 0.4)
OTHER_ZONE_MS = (0.6, 1.4)
_JITTER = 0.08
"""Standard deviation of the logarithm, from pair to pair."""


class GeneratedNetwork(NamedTuple):
    """names: of the nodes. rtt_ms: between them. rack, zone: each node's, by number."""

    names: tuple[str, ...]
    rtt_ms: Floats
    rack: Indices
    zone: Indices


def make_network(spec: GeneratorSpec, measured_ms: Floats | None, rng: np.random.Generator) -> GeneratedNetwork:
    """Makes the network of a cluster, with delays in whole microseconds.

    measured_ms: a matrix, from which nodes are drawn; None: a data centre region is made up. BadSpec.
    """
    if measured_ms is None:
        rtt_ms = rack_network(spec.zones, spec.racks, spec.nodes, rng).rtt_ms.astype(float)
    else:
        rtt_ms = _neighbours_together(_drawn(spec, measured_ms, rng))
    return _named(np.round(rtt_ms, 3), spec.racks, spec.nodes)


def rack_network(zones: int, racks_a_zone: int, nodes_a_rack: int, rng: np.random.Generator) -> GeneratedNetwork:
    """A data centre region: 0.06 to 1.4 ms, set by whether two nodes share a rack, a zone or neither."""
    rack = np.repeat(np.arange(zones * racks_a_zone), nodes_a_rack)
    zone = rack // racks_a_zone
    between_zones = _symmetric(rng.uniform(*OTHER_ZONE_MS, (zones, zones)))
    between_racks = _symmetric(rng.uniform(*SAME_ZONE_MS, (rack[-1] + 1, rack[-1] + 1)))
    np.fill_diagonal(between_racks, rng.uniform(*SAME_RACK_MS, len(between_racks)))
    same = zone[:, None] == zone
    rtt_ms = np.where(same, between_racks[rack[:, None], rack], between_zones[zone[:, None], zone])
    rtt_ms = rtt_ms * np.exp(_symmetric(rng.normal(0, _JITTER, rtt_ms.shape)))
    np.fill_diagonal(rtt_ms, 0)
    return _named(rtt_ms.astype(np.float32), racks_a_zone, nodes_a_rack)


def random_peers(nodes: int, k: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Sources and targets when every node measures k random others. ValueError when there are fewer."""
    if not 0 < k < nodes:
        raise ValueError(f"k {k} must be within 1..{nodes - 1} for {nodes} nodes")
    target = np.stack([rng.choice(nodes - 1, k, replace=False) for _ in range(nodes)])
    target += target >= np.arange(nodes)[:, None]
    return np.repeat(np.arange(nodes), k), target.ravel()


def _named(rtt_ms: Floats, racks_a_zone: int, nodes_a_rack: int) -> GeneratedNetwork:
    """The network of these delays, filled rack by rack and zone by zone."""
    rack = np.arange(len(rtt_ms)) // nodes_a_rack
    zone = rack // racks_a_zone
    names = (f"z{zone[n]}-r{rack[n] % racks_a_zone}-n{n % nodes_a_rack}" for n in range(len(rtt_ms)))
    return GeneratedNetwork(tuple(names), rtt_ms, rack, zone)


def _symmetric(square: Floats) -> Floats:
    upper = np.triu(square)
    return upper + np.triu(square, 1).T


def _drawn(spec: GeneratorSpec, measured_ms: Floats, rng: np.random.Generator) -> Floats:
    """As many of the measured nodes as are wanted."""
    if len(measured_ms) < spec.node_count:
        size = f"the matrix has {len(measured_ms)} rows"
        raise BadSpec(f"network={spec.network}: zones x racks x nodes are {spec.node_count} nodes, but {size}")
    drawn = rng.choice(len(measured_ms), spec.node_count, replace=False)
    return measured_ms[np.ix_(drawn, drawn)]


def _neighbours_together(rtt_ms: Floats) -> Floats:
    """The matrix in the order of a chain from each node to the nearest one left, so that racks and zones are near."""
    both = np.maximum(rtt_ms, rtt_ms.T)
    order, left = [0], np.ones(len(both), bool)
    left[0] = False
    while left.any():
        nearest = int(np.argmin(np.where(left, both[order[-1]], np.inf)))
        order.append(nearest)
        left[nearest] = False
    return rtt_ms[np.ix_(order, order)]
