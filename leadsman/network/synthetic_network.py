"""Generates networks whose every round trip is known, to evaluate estimates on. Milliseconds, sources as rows."""

from typing import NamedTuple

import numpy as np

from leadsman.network.measured_pairs import Floats, Indices

SAME_RACK_MS, SAME_ZONE_MS = (0.06, 0.12), (0.15, 0.4)
OTHER_ZONE_MS = (0.6, 1.4)
_JITTER = 0.08
"""Standard deviation of the logarithm, from pair to pair."""


class SyntheticNetwork(NamedTuple):
    """A network and the rack and zone of each node."""

    rtt_ms: Floats
    rack: Indices
    zone: Indices


def rack_network(zones: int, racks_a_zone: int, nodes_a_rack: int, rng: np.random.Generator) -> SyntheticNetwork:
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
    return SyntheticNetwork(rtt_ms.astype(np.float32), rack, zone)


def random_peers(nodes: int, k: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Sources and targets when every node measures k random others. ValueError when there are fewer."""
    if not 0 < k < nodes:
        raise ValueError(f"k {k} must be within 1..{nodes - 1} for {nodes} nodes")
    target = np.stack([rng.choice(nodes - 1, k, replace=False) for _ in range(nodes)])
    target += target >= np.arange(nodes)[:, None]
    return np.repeat(np.arange(nodes), k), target.ravel()


def _symmetric(square: Floats) -> Floats:
    upper = np.triu(square)
    return upper + np.triu(square, 1).T
