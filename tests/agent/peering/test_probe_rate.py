"""How often: within the budgets, in steps, without flapping."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.peering import peer_refresh
from agent.peering.peer_selection import MAX_SAMPLES, estimate_nodes
from leadsman.state import keys
from leadsman.state.report_timing import ReportTiming, timing_for_nodes

SIZES = st.floats(1, 1e6)
A_DAY = 24 * 240
"""Readings, one every 15 s."""
SETTLED = 32
"""Readings until the estimate has all its arcs."""


def day(nodes: int, rng: Random) -> Iterator[int]:
    """What one agent assumes, reading by reading."""
    others: deque[tuple[int, int]] = deque(maxlen=MAX_SAMPLES)
    own, held = (16, span(16, nodes, rng)), peer_refresh.MIN_NODES
    for _ in range(A_DAY):
        others.append((8, span(8, nodes, rng)))
        held = peer_refresh.assumed_nodes(held, estimate_nodes([own, *others]))
        yield held


def span(steps: int, nodes: int, rng: Random) -> int:
    """The length of so many steps between names that hash evenly."""
    return round(rng.gammavariate(steps, keys.RING_SIZE / nodes))


@given(SIZES, SIZES)
def test_what_is_assumed_is_never_below_the_estimate_nor_far_above(before: float, estimate: float) -> None:
    held = peer_refresh.assumed_nodes(peer_refresh.MIN_NODES, before)
    after = peer_refresh.assumed_nodes(held, estimate)
    assert after >= estimate
    assert after <= max(peer_refresh.MIN_NODES, estimate / 0.65 + 1)


@pytest.mark.parametrize("nodes", [100, 900, 1000, 5000, 20_000])
def test_in_a_day_of_5760_readings_the_lease_is_granted_anew_ten_times_at_most(nodes: int) -> None:
    """Each reading of a random arc moves the estimate."""
    for agent in range(3):
        leases = [timing_for_nodes(ReportTiming(), held).lease_seconds for held in day(nodes, Random(agent))]
        assert sum(one != other for one, other in pairwise(leases[SETTLED:])) <= 10


@given(st.integers(1, 24), st.integers(1, 200_000), st.floats(100, 1e6))
def test_all_agents_together_stay_within_the_budget(peers: int, nodes: int, budget: float) -> None:
    interval = peer_refresh.probe_interval_seconds(1.0, peers, nodes, budget)
    assert nodes * peers / interval <= budget * 1.000001 or interval == 1.0
    assert interval >= 1.0
