"""The delays of a generated cluster, and which nodes share racks and zones."""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices
from leadsman.network.synthetic_network import rack_network
from leadsman.simulator.generated_cluster.spec import BadSpec, GeneratorSpec


class GeneratedNetwork(NamedTuple):
    """names: of the nodes. rtt_ms: between them, rows as sources. rack, zone: each node's, by number."""

    names: tuple[str, ...]
    rtt_ms: Floats
    rack: Indices
    zone: Indices


def make_network(spec: GeneratorSpec, measured_ms: Floats | None, rng: np.random.Generator) -> GeneratedNetwork:
    """Delays in whole microseconds. measured_ms: a matrix; None: a data centre region is made up. BadSpec."""
    rack = np.repeat(np.arange(spec.zones * spec.racks), spec.nodes)
    zone = rack // spec.racks
    if measured_ms is None:
        rtt_ms = rack_network(spec.zones, spec.racks, spec.nodes, rng).rtt_ms.astype(float)
    else:
        rtt_ms = _neighbours_together(_drawn(spec, measured_ms, rng))
    names = (
        f"z{zone[number]}-r{rack[number] % spec.racks}-n{number % spec.nodes}" for number in range(spec.node_count)
    )
    return GeneratedNetwork(tuple(names), np.round(rtt_ms, 3), rack, zone)


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
