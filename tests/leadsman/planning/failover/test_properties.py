"""What holds for every cluster and every fault."""

from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.planning.failover.node_verdict import Location, NodeHealth, Truth
from tests.leadsman.planning.failover.conftest import World

NODES = [f"n{number}" for number in range(6)]


@st.composite
def clusters(draw: st.DrawFn) -> World:
    """Some nodes in some racks, with some faults after which some time has passed."""
    locations = st.builds(Location, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "1", "2"]))
    world = World({node: draw(locations) for node in NODES[: draw(st.integers(2, 6))]})
    some = st.sets(st.sampled_from(sorted(world.nodes)), max_size=3)
    world.isolate(draw(some))
    world.mute |= draw(some)
    world.unrenewed |= draw(some)
    world.faulty |= draw(some)
    world.api_answers = draw(st.booleans())
    world.run(draw(st.integers(1, 30)))
    return world


@settings(max_examples=50)
@given(clusters())
def test_a_death_has_three_true_signals(world: World) -> None:
    for verdict in world.plan.verdicts.values():
        if verdict.state is NodeHealth.DEAD and verdict.since == world.now:
            assert set(verdict.signals.truths) == {Truth.TRUE}


@st.composite
def three_zones_of_racks(draw: st.DrawFn) -> World:
    """6 to 12 nodes in zones a, b and c in turn, each in a rack of its own."""
    world = World(
        {f"n{number}": Location("abc"[number % 3], f"r{number}") for number in range(draw(st.integers(6, 12)))}
    )
    world.renewal_stagger = draw(st.integers(0, 5))
    world.run(20)
    return world


@settings(max_examples=60)
@given(three_zones_of_racks(), st.data())
def test_nodes_that_die_at_once_are_dead_only_while_four_of_five_of_the_others_renew(
    world: World, data: st.DataObject
) -> None:
    some = st.sets(st.sampled_from(sorted(world.nodes)), max_size=4)
    killed, without_api = data.draw(some), data.draw(some)
    world.unrenewed |= without_api
    world.run(15)
    world.kill_each(*sorted(killed))
    world.run(20)
    living, others_killed = world.nodes.keys() - killed, max(0, len(killed) - 1)
    assert world.dead <= killed
    # A node that died a moment ago is a witness still: its Lease changed within the time that counts.
    witnesses = len(living - without_api) + others_killed
    assert not world.dead or witnesses >= world.rules.renewed_ratio * (len(living) + others_killed)


@settings(max_examples=40)
@given(three_zones_of_racks(), st.data())
def test_no_node_dies_in_a_zone_that_is_cut_off_whatever_dies_elsewhere(world: World, data: st.DataObject) -> None:
    zone = {node for node, location in world.nodes.items() if location.zone == "a"}
    killed = data.draw(st.sets(st.sampled_from(sorted(world.nodes.keys() - zone)), max_size=2))
    world.isolate(zone)
    world.mute |= zone
    world.unrenewed |= zone
    world.kill_each(*sorted(killed))
    for _ in range(40):
        world.run(1)
        assert world.dead <= killed
