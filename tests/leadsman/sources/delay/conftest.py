"""What tests of delays share."""

from collections.abc import Mapping

import numpy as np

from leadsman.network.fitting import FitBudget
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

QUICK = FitBudget(members=3, steps=120, landmarks=20, calibration_rounds=2)
"""A fit for tests of anything but accuracy."""


def node_state(
    peers: Mapping[str, float | None], place: tuple[str, str, str] = ("", "", ""), at: float = 0.0
) -> NodeState:
    """A node that reported at `at`. peers: name → median RTT in ms, None: no reply. place: address, zone, rack."""
    windows = {peer: PeerLatency(10, 0) if ms is None else window(ms) for peer, ms in peers.items()}
    identity = Identity("pod", 1, *place) if any(place) else None
    return NodeState(identity=identity, heartbeat=Heartbeat(1, 1, 5.0), latency=Latency(windows), changed_at=at)


def window(ms: float) -> PeerLatency:
    return PeerLatency(10, 10, p50_ms=ms, p95_ms=ms * 2, min_ms=ms / 2)


def random_plane(nodes: int = 40, peers: int = 10, seed: int = 0, at: float = 0.0) -> Snapshot:
    """Nodes n-00 … on 100 ms by 100 ms, each measuring some others. The same for any seed but for who measures whom."""
    point = np.random.default_rng(0).uniform(0, 100, (2, nodes))
    rng, states = np.random.default_rng(seed), {}
    for one in range(nodes):
        others = [other for other in rng.permutation(nodes)[: peers + 1].tolist() if other != one][:peers]
        far = {f"n-{other:02}": float(np.hypot(*(point[:, one] - point[:, other]))) for other in others}
        states[f"n-{one:02}"] = node_state(far, at=at)
    return Snapshot(states)


def snapshot_of(**states: NodeState) -> Snapshot:
    return Snapshot(states)
