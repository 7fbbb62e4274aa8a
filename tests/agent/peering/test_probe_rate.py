"""How often: within the budgets, in steps, without flapping."""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.peering import peer_refresh
from agent.peering.peer_selection import LOST_PEER_SECONDS, MAX_SAMPLES, estimate_nodes
from leadsman.state import keys
from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from tests.probing_figures import Figures, run_probing, seconds_until_forgotten
from tests.simulated_agents import PEERING_SETTINGS, ProbingSimulation, SyntheticNetwork

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


# What probing costs a node does not depend on how many there are. The agents' own code, on a virtual clock. `python
# -m benchmarks.probing_scale` has the same figures of up to 5,000 nodes.

SMALL, LARGE = 40, 200
SETTLE_SECONDS = 90.0
RING_READING_SECONDS = 17.0

SLACK = {
    "probes sent, most": 1.0,
    "probes received, mean": 1.0,
    "probes received, p99": 1.5,
    "probed by, most": 1.7,
    "bytes written, mean": 1.5,
    "bytes written, p99": 1.5,
    "bytes read, mean": 1.3,
    "bytes read, most": 1.3,
    "calls to etcd, mean": 1.1,
    "a new node is probed after": 1.5,
}
"""A node's figure → how many times as large it may be where there are five times as many nodes, by chance."""


@pytest.fixture(scope="module")
def figures() -> dict[int, Figures]:
    """More than twice as many nodes as peers, and five times that."""
    return {nodes: run_probing(nodes, SETTLE_SECONDS, newcomers=3) for nodes in (SMALL, LARGE)}


def test_no_figure_of_a_node_grows_with_the_cluster(figures: dict[int, Figures]) -> None:
    small, large = figures[SMALL], figures[LARGE]
    assert {name: large[name] / small[name] for name, slack in SLACK.items() if large[name] > small[name] * slack} == {}


def test_who_joins_is_at_home_within_two_readings_of_the_ring(figures: dict[int, Figures]) -> None:
    for found in figures.values():
        assert found["a new node is reported after"] <= 8
        assert found["a new node is probed after"] <= RING_READING_SECONDS
        assert found["a new node is placed after"] <= 2 * RING_READING_SECONDS + 1


def test_who_left_is_probed_for_five_minutes_and_two_readings_more() -> None:
    assert seconds_until_forgotten(SMALL) <= LOST_PEER_SECONDS + 2 * RING_READING_SECONDS


def test_coordinates_foretell_round_trips_that_nobody_measured(figures: dict[int, Figures]) -> None:
    assert figures[LARGE]["error of coordinates, median"] < 0.15


async def test_all_agents_together_keep_to_the_budget() -> None:
    """At a twentieth of what they would send, two minutes after all started at once."""
    budget = 48.0
    world = ProbingSimulation(SyntheticNetwork(1), 16, 1, replace(PEERING_SETTINGS, probe_budget=budget))
    for number in range(60):
        world.join(f"node-{number:05}", 5.0)
    await world.run(120.0)
    assert sum(len(agent.peers) / agent.interval_seconds for agent in world.agents.values()) <= budget
