import math
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.network import vivaldi
from leadsman.network.measured_pairs import Floats
from leadsman.network.vivaldi import Coordinate, VivaldiState, estimate_ms, initial_state, update
from leadsman.state.records import RingCoordinate, RingEntry, encode_record

ROUNDS = 250


class Nodes:
    """Nodes that measure each other, two peers a round, as agents do. liars: say anything of themselves."""

    def __init__(self, rtt_ms: Floats, liars: frozenset[int] = frozenset()):
        self.rtt_ms, self.liars, self.rng = rtt_ms, liars, Random(0)
        self.peers = [self.rng.sample([j for j in range(len(rtt_ms)) if j != i], 16) for i in range(len(rtt_ms))]
        self.positions = [initial_state() for _ in rtt_ms]

    def run(self, rounds: int) -> "Nodes":
        for _ in range(rounds):
            for node in range(len(self.rtt_ms)):
                self.measure(node)
        return self

    def measure(self, node: int) -> None:
        for peer in self.rng.sample(self.peers[node], 2):
            said = self.said(peer)
            self.positions[node] = update(self.positions[node], said, float(self.rtt_ms[node, peer]), self.rng)

    def said(self, peer: int) -> Coordinate:
        if peer not in self.liars:
            return self.positions[peer].coordinate
        return Coordinate(tuple(self.rng.uniform(-30_000, 30_000) for _ in range(4)), 0.0, 0.0, 0.0)

    def error(self, quantile: float = 0.5) -> float:
        honest = [node for node in range(len(self.rtt_ms)) if node not in self.liars]
        pairs = [(i, j) for i in honest for j in honest if i < j]
        return float(np.quantile([abs(self.estimate(i, j) / self.rtt_ms[i, j] - 1) for i, j in pairs], quantile))

    def estimate(self, one: int, other: int) -> float:
        return estimate_ms(self.positions[one].coordinate, self.positions[other].coordinate)


@pytest.fixture(scope="module")
def settled(part: Floats) -> Nodes:
    return Nodes(part).run(ROUNDS)


def test_measured_hosts_are_estimated_within_their_known_error(settled: Nodes) -> None:
    assert settled.error() < 0.12


@pytest.mark.parametrize("rtt_ms", [float("nan"), float("inf"), 0.0, -1.0, 60_001.0])
def test_a_round_trip_that_makes_no_sense_moves_nothing(settled: Nodes, rtt_ms: float) -> None:
    own, peer = settled.positions[0], settled.positions[1].coordinate
    assert update(own, peer, rtt_ms, Random(0)) == own


near = st.floats(-60_000, 60_000)
claims = st.builds(Coordinate, st.tuples(near, near, near, near), st.floats(0, 60_000), near, st.floats(0, 60_000))


@given(claims, st.floats(0.001, 60_000), st.randoms(use_true_random=False))
def test_no_claim_moves_a_settled_node_beyond_the_bound(claim: Coordinate, rtt_ms: float, rng: Random) -> None:
    own = VivaldiState(Coordinate((20.0, 5.0, 0.0, 1.0), 2.0, 0.0, 0.3), (1.0, -1.0) * 10)
    after = update(own, claim, rtt_ms, rng)
    bound = vivaldi.MOVE_GAIN * vivaldi.MAX_PULL_RATIO * 1.0 + (math.hypot(20, 5, 1) / vivaldi.GRAVITY_MS) ** 2
    assert math.dist(after.coordinate.point, own.coordinate.point) <= bound * 1.001


FAR = Coordinate((60_000.0,) * 4, 60_000.0, 60_000.0, 0.0)


@given(st.lists(st.tuples(claims, st.floats(allow_nan=True)), max_size=40), st.randoms(use_true_random=False))
@example([(FAR, 1.0)] * 20, Random(0))
@example([(FAR, 60_000.0)] * 40, Random(0))
def test_whatever_comes_a_coordinate_stays_one_that_its_record_takes(
    said: list[tuple[Coordinate, float]], rng: Random
) -> None:
    """Else one hostile agent would end the others."""
    own = initial_state()
    for claim, rtt_ms in said:
        own = update(own, claim, rtt_ms, rng)
    found = own.coordinate
    assert found.height >= vivaldi.MIN_HEIGHT_MS
    record = RingCoordinate(found.point, found.height, found.adjustment, found.error)
    encode_record(RingEntry("10.0.0.1", coordinate=record))


def test_one_liar_does_not_drag_the_others(settled: Nodes, part: Floats) -> None:
    """It is a peer of one node in seven. Without the bound their error would grow many times."""
    lied_to = Nodes(part, liars=frozenset([7])).run(ROUNDS)
    assert lied_to.error() < settled.error() * 1.2
    assert lied_to.error(0.9) < settled.error(0.9) * 1.2


def test_a_node_that_moves_is_followed(settled: Nodes, part: Floats) -> None:
    """Node 0 is now where node 50 is: after 20 rounds of its 16 peers it is estimated as one that was always there."""
    own, rng = settled.positions[0], Random(0)
    peers = [peer for peer in settled.peers[0] if peer != 50]
    for _ in range(20):
        for peer in peers:
            own = update(own, settled.positions[peer].coordinate, float(part[50, peer]), rng)
    others = [node for node in range(120) if node not in (0, 50)]
    errors = [abs(estimate_ms(own.coordinate, settled.positions[j].coordinate) / part[50, j] - 1) for j in others]
    assert np.median(errors) < 0.2
