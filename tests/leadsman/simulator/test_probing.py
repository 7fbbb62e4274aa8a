"""What probing costs a node does not depend on how many there are. The agents' own code, on a virtual clock."""

import asyncio

import pytest

from agent.peering.peer_selection import LOST_PEER_SECONDS
from leadsman.simulator.probing import PEERING_SETTINGS, ProbingSimulation
from leadsman.simulator.probing_run import ProbingFigures, run_probing
from leadsman.simulator.synthetic_network import SyntheticNetwork

SMALL, LARGE = 60, 300
SETTLE_SECONDS = 120.0


@pytest.fixture(scope="module")
def figures() -> dict[int, ProbingFigures]:
    """Twice as many nodes as peers, and five times that."""
    return {nodes: asyncio.run(run_probing(nodes, SETTLE_SECONDS, newcomers=3)) for nodes in (SMALL, LARGE)}


@pytest.mark.parametrize(
    ("figure", "slack"),
    [
        (lambda f: f.sent_per_second.most, 1.0),
        (lambda f: f.received_per_second.mean, 1.0),
        (lambda f: f.received_per_second.p99, 1.5),
        (lambda f: f.probed_by.most, 1.7),
        (lambda f: f.written_bytes_per_second_a_node.mean, 1.5),
        (lambda f: f.written_bytes_per_second_a_node.p99, 1.5),
        (lambda f: f.read_bytes_per_second_a_node.mean, 1.3),
        (lambda f: f.read_bytes_per_second_a_node.most, 1.3),
        (lambda f: f.calls_per_second / f.nodes, 1.1),
        (lambda f: f.joined_probed_seconds, 1.5),
        (lambda f: f.left_forgotten_seconds, 1.5),
    ],
    ids=[
        "sent",
        "received",
        "received p99",
        "probed by",
        "written",
        "written p99",
        "read",
        "read most",
        "calls",
        "probed",
        "left",
    ],
)
def test_no_figure_of_a_node_grows_with_the_cluster(figures: dict[int, ProbingFigures], figure, slack: float) -> None:
    assert figure(figures[LARGE]) <= figure(figures[SMALL]) * slack


def test_every_node_probes_k_and_is_probed_by_about_k(figures: dict[int, ProbingFigures]) -> None:
    found = figures[LARGE]
    assert found.sent_per_second.most == pytest.approx(16.0)
    assert found.probed_by.mean == pytest.approx(16.0)
    assert found.probed_by.most <= 40


def test_who_joins_is_at_home_within_two_readings_of_the_ring(figures: dict[int, ProbingFigures]) -> None:
    for found in figures.values():
        assert within(8, found.joined_reported_seconds)
        assert within(17, found.joined_probed_seconds)
        assert within(35, found.joined_placed_seconds)


def within(limit_seconds: float, took_seconds: float | None) -> bool:
    """None: it did not come about."""
    return took_seconds is not None and took_seconds <= limit_seconds


def test_who_left_is_probed_for_five_minutes_and_two_readings_more(figures: dict[int, ProbingFigures]) -> None:
    assert all(within(LOST_PEER_SECONDS + 2 * 17, found.left_forgotten_seconds) for found in figures.values())


def test_coordinates_foretell_round_trips_that_nobody_measured(figures: dict[int, ProbingFigures]) -> None:
    assert figures[LARGE].median_relative_error < 0.15


async def test_all_agents_together_keep_to_the_budget() -> None:
    """At a twentieth of what they would send, two minutes after all started at once."""
    rhythm = type(PEERING_SETTINGS)(PEERING_SETTINGS.timing, 1.0, 30.0, probe_budget=200.0)
    world = ProbingSimulation(SyntheticNetwork(1), 16, 1, rhythm)
    for number in range(250):
        world.join(f"node-{number:05}", 5.0)
    await world.run(120.0)
    assert sum(len(agent.peers) / agent.interval_seconds for agent in world.agents.values()) <= 200.0


async def test_the_same_seed_is_the_same_run() -> None:
    async def run() -> list[tuple[str, ...]]:
        world = ProbingSimulation(SyntheticNetwork(1), 4, 7)
        for number in range(30):
            world.join(f"node-{number:05}", 5.0)
        await world.run(60.0)
        return [tuple(agent.peers) for agent in world.agents.values()]

    assert await run() == await run()
