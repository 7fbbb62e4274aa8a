"""What holds for every cluster and every fault."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from leadsman.planning.failover.node_verdict import DetectionRules, HealthInputs, LeaseView, Location, NodeHealth, Truth
from leadsman.planning.failover.verdicts import NO_MEMORY, HealthPlan, plan_node_health
from leadsman.state.records import Heartbeat, PeerSilence, Reachability
from leadsman.state.snapshot import NodeState, Snapshot
from tests.leadsman.planning.failover.conftest import World

NODES = [f"n{number}" for number in range(6)]
TARGET = NODES[0]
NOW = 1_000.0
LATER = 14.0
"""Seconds after which the target's heartbeat stands still and its Lease has not changed for long enough."""


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
    living = world.nodes.keys() - killed
    assert world.dead <= killed
    assert not world.dead or len(living - without_api) >= world.rules.renewed_ratio * len(living)


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


def report(loses: set[str], hears: set[str], losses: int = 3) -> Reachability:
    return Reachability(
        dict.fromkeys(loses, losses) | dict.fromkeys(hears, 0),
        {node: PeerSilence(3.0) for node in loses},
        len(loses) + len(hears),
        len(hears),
    )


reports = st.builds(
    lambda of_target, others: (of_target, others),
    st.sampled_from(["lost", "heard", "not probed"]),
    st.sets(st.sampled_from(NODES[1:])),
)
"""What a prober says of the target, and which other peers it has lost."""


def plans(said: dict[str, tuple[str, set[str]]], order: list[str], locations: dict[str, Location]) -> HealthPlan:
    """The last plan when the reports of losses arrive in this order, while the target has been silent."""
    memory, states = NO_MEMORY, {}
    for node in NODES:
        healthy = report(set(), set(NODES) - {node})
        states[node] = NodeState(heartbeat=Heartbeat(1, 1, 5.0), changed_at=NOW, reachability=healthy)
    leases = {node: LeaseView(40.0, NOW) for node in NODES}
    plan = plan_node_health(Snapshot(states), HealthInputs(locations, leases), rules(), memory, NOW)
    for step, node in enumerate(order):
        of_target, lost = said[node]
        loses = (lost | ({TARGET} if of_target == "lost" else set())) - {node}
        hears = set(NODES) - loses - {node} - ({TARGET} if of_target == "not probed" else set())
        at = NOW + 4.0 + step
        states[node] = NodeState(heartbeat=Heartbeat(1, 2, 5.0), changed_at=at, reachability=report(loses, hears))
        plan = plan_node_health(Snapshot(states), HealthInputs(locations, leases), rules(), plan.memory, at)
    for node in NODES[1:]:
        states[node] = structs.replace(states[node], heartbeat=Heartbeat(1, 3, 5.0), changed_at=NOW + LATER)
        leases[node] = LeaseView(40.0, NOW + 10.0)
    leases[TARGET] = LeaseView(40.0, NOW, confirmed_at=NOW + 13.0)
    return plan_node_health(Snapshot(states), HealthInputs(locations, leases), rules(), plan.memory, NOW + LATER)


def rules() -> DetectionRules:

    return DetectionRules()


all_reports = st.fixed_dictionaries(dict.fromkeys(NODES[1:], reports))
places = st.fixed_dictionaries(
    {node: st.builds(Location, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "1"])) for node in NODES}
)


@settings(max_examples=80)
@given(all_reports, st.permutations(NODES[1:]), st.permutations(NODES[1:]), places)
def test_the_order_in_which_losses_are_reported_does_not_matter(
    said: dict[str, tuple[str, set[str]]], one: list[str], other: list[str], locations: dict[str, Location]
) -> None:
    first, second = plans(said, one, locations).verdicts, plans(said, other, locations).verdicts
    assert [verdict.state for verdict in first.values()] == [verdict.state for verdict in second.values()]


@settings(max_examples=100)
@given(all_reports, st.sampled_from(NODES[1:]), places)
def test_one_more_peer_that_hears_it_makes_no_node_dead(
    said: dict[str, tuple[str, set[str]]], hearing: str, locations: dict[str, Location]
) -> None:
    said = {**said, hearing: ("not probed", said[hearing][1] - {TARGET})}
    before = plans(said, NODES[1:], locations).verdicts[TARGET].state
    after = plans(said | {hearing: ("heard", said[hearing][1])}, NODES[1:], locations).verdicts[TARGET].state
    assert not (before is not NodeHealth.DEAD and after is NodeHealth.DEAD)


def test_the_examples_above_can_end_in_a_death() -> None:
    said: dict[str, tuple[str, set[str]]] = {node: ("lost", set()) for node in NODES[1:]}
    locations = {node: Location(f"z{number % 3}") for number, node in enumerate(NODES)}
    assert plans(said, NODES[1:], locations).verdicts[TARGET].state is NodeHealth.DEAD
