"""What detection says of clusters that lose nodes, switches, etcd or the API server."""

import pytest

from leadsman.planning.failover.node_verdict import Location, NodeHealth, VerdictReason
from tests.leadsman.planning.failover.conftest import LEASE_SECONDS, PUSH_SECONDS, RENEW_SECONDS, World, in_zones

DETECTED_WITHIN_SECONDS = 16


def test_a_node_that_was_killed_is_dead_within_16_seconds(three_zones: World) -> None:
    began = three_zones.now
    three_zones.kill("a-0")
    three_zones.run(DETECTED_WITHIN_SECONDS)
    assert three_zones.dead == {"a-0"}
    timeline = three_zones.verdict("a-0").timeline
    assert timeline.first_lost_at == began + 1
    assert timeline.suspect_at is not None
    assert timeline.suspect_at <= began + 6


@pytest.mark.parametrize("sign", ["probes", "heartbeat", "lease"])
def test_one_sign_of_life_ends_a_death(three_zones: World, sign: str) -> None:
    three_zones.kill("a-0")
    three_zones.run(DETECTED_WITHIN_SECONDS)
    assert three_zones.dead == {"a-0"}
    if sign == "probes":
        three_zones.cut.clear()
    elif sign == "heartbeat":
        three_zones.mute.clear()
    else:
        three_zones.unrenewed.clear()
    three_zones.run(12)
    assert three_zones.dead == set()


def test_a_node_whose_kubelet_alone_stopped_is_suspect_once_its_lease_has_run_out(three_zones: World) -> None:
    three_zones.unrenewed.add("a-0")
    three_zones.run(LEASE_SECONDS - RENEW_SECONDS - 1)
    assert three_zones.verdict("a-0").state is NodeHealth.HEALTHY, "a kubelet under load renews late"
    three_zones.run(RENEW_SECONDS + 5)
    assert three_zones.verdict("a-0").reason is VerdictReason.KUBELET_SILENT
    assert three_zones.of(NodeHealth.SUSPECT) == {"a-0"}
    three_zones.unrenewed.clear()
    three_zones.run(RENEW_SECONDS + 1)
    assert three_zones.of(NodeHealth.HEALTHY) == set(three_zones.nodes)


def test_a_silent_agent_of_a_node_that_is_heard_is_suspect_once_its_report_counts_no_longer(three_zones: World) -> None:
    """Its heartbeat stopped after 2P + T = 13 s, which a busy machine comes near; its report counts for 3P = 15 s."""
    three_zones.mute.add("a-0")
    reported_at = three_zones.states["a-0"].changed_at or 0.0
    while not three_zones.of(NodeHealth.SUSPECT):
        three_zones.run(1)
    assert three_zones.verdict("a-0").reason is VerdictReason.AGENT_SILENT
    assert three_zones.now - reported_at == 3 * PUSH_SECONDS


def test_leases_that_all_stand_still_are_not_read_one_by_one(three_zones: World) -> None:
    three_zones.api_answers = False
    three_zones.run(3 * LEASE_SECONDS)
    assert three_zones.plan.unconfirmed_leases == ()


def test_a_rack_of_three_cut_inside_a_zone_of_ten_is_no_death() -> None:
    world = World(in_zones({"r0": 3, "r1": 4, "r2": 3}))
    rack = ["a-r0-0", "a-r0-1", "a-r0-2"]
    world.isolate(rack)
    world.mute |= set(rack)
    world.unrenewed |= set(rack)
    for _ in range(120):
        world.run(1)
        assert world.dead == set()
        if world.verdict("a-r0-0").signals.peers.truth == "true":
            assert world.verdict("a-r0-0").reason is VerdictReason.PARTITION


def test_two_nodes_of_a_zone_that_a_third_one_has_lost_too_are_dead(three_zones: World) -> None:
    three_zones.isolate(["a-0"])
    three_zones.isolate(["a-1"])
    three_zones.mute |= {"a-0", "a-1"}
    three_zones.unrenewed |= {"a-0", "a-1"}
    three_zones.run(DETECTED_WITHIN_SECONDS)
    assert three_zones.dead == {"a-0", "a-1"}


@pytest.mark.parametrize("nodes", [9, 10, 11, 12])
@pytest.mark.parametrize("renewal_stagger", [0, 1, 3])
def test_three_nodes_of_different_zones_that_die_at_once_are_dead(nodes: int, renewal_stagger: int) -> None:
    """Also where they are more than 20 % of all Leases: each is no witness against the API server for the others."""
    world = spread_over_zones(nodes, renewal_stagger)
    world.kill_each("n0", "n1", "n2")
    world.run(DETECTED_WITHIN_SECONDS + 2)
    assert world.dead == {"n0", "n1", "n2"}


def test_nodes_that_die_at_once_while_two_more_kubelets_cannot_renew_are_suspect() -> None:
    """Of the six that live only four renew: 67 %."""
    world = spread_over_zones(9, renewal_stagger=0)
    world.unrenewed |= {"n3", "n4"}
    world.kill_each("n0", "n1", "n2")
    world.run(DETECTED_WITHIN_SECONDS + 2)
    assert world.dead == set()
    assert "only 4 of 6 others changed" in world.verdict("n0").message


def test_while_a_zone_is_cut_its_leases_still_count_against_the_death_of_another_node() -> None:
    world = World({f"{zone}-{n}": Location(zone, f"r{n}") for zone in "abcde" for n in range(3)})
    world.renewal_stagger = 0
    world.run(2 * 10)
    zone = {"a-0", "a-1", "a-2"}
    world.isolate(zone)
    world.mute |= zone
    world.unrenewed |= zone
    world.kill("b-0")
    world.run(DETECTED_WITHIN_SECONDS + 2)
    assert world.dead == set()
    assert "only 11 of 14 others changed" in world.verdict("b-0").message


def test_three_of_nine_that_no_zone_or_rack_names_stay_suspect_when_they_fall_silent_at_once() -> None:
    """A switch that no label names would look the same."""
    world = World({f"n{number}": Location() for number in range(9)})
    world.renewal_stagger = 0
    world.run(2 * 10)
    world.kill_each("n0", "n1", "n2")
    world.run(60)
    assert world.of(NodeHealth.SUSPECT) == {"n0", "n1", "n2"}


def spread_over_zones(nodes: int, renewal_stagger: int) -> World:
    """Nodes n0, n1, … of zones a, b, c in turn, whose kubelets renew so many seconds apart."""
    world = World({f"n{number}": Location("abc"[number % 3], f"r{number}") for number in range(nodes)})
    world.renewal_stagger = renewal_stagger
    world.run(2 * 10)
    return world


def test_agents_that_report_one_after_the_other_when_etcd_is_back_are_not_accused(three_zones: World) -> None:
    nodes = list(three_zones.nodes)
    three_zones.mute |= set(nodes)
    three_zones.run(60)
    for node in nodes:
        three_zones.mute.remove(node)
        three_zones.run(1)
        assert three_zones.of(NodeHealth.HEALTHY) == set(nodes)


def test_a_node_that_dies_while_the_api_server_is_away_is_suspect_until_it_is_back(three_zones: World) -> None:
    three_zones.api_answers = False
    three_zones.run(60)
    three_zones.kill("a-0")
    three_zones.run(15)
    assert three_zones.verdict("a-0").state is NodeHealth.SUSPECT
    three_zones.api_answers = True
    three_zones.run(4)
    assert three_zones.dead == set(), "the others have not renewed yet"


def test_a_prober_with_a_local_fault_accuses_nobody(three_zones: World) -> None:
    three_zones.faulty |= set(three_zones.nodes) - {"a-0"}
    three_zones.kill("a-0")
    three_zones.run(15)
    assert three_zones.verdict("a-0").signals.peers.truth == "unknown"
    assert any("has a fault of its own" in said for said in three_zones.verdict("a-0").signals.peers.evidence)


@pytest.mark.parametrize(("nodes", "is_dead"), [(2, False), (3, True), (4, True)])
def test_of_two_nodes_none_is_ever_dead_and_of_three_both_others_must_agree(nodes: int, is_dead: bool) -> None:
    world = World({f"n{number}": Location() for number in range(nodes)})
    world.kill("n0")
    world.run(30)
    assert (world.dead == {"n0"}) is is_dead


def test_losses_seen_from_one_rack_only_are_no_death() -> None:
    """Three of four that probe it are of one rack, and the fourth reports no more: their link may be what failed."""
    world = World({**in_zones({"r0": 3}), "b-0": Location("b", "r0"), "b-1": Location("b", "r1")})
    world.mute |= {"b-1"}
    world.run(5)
    world.kill("b-0")
    world.run(13)
    assert world.verdict("b-0").signals.peers.truth != "true"


def test_an_agent_that_is_stopped_in_good_order_is_no_silence(three_zones: World) -> None:
    three_zones.mute |= {"a-0"}
    del three_zones.states["a-0"]
    three_zones.run(60)
    assert three_zones.verdict("a-0").state is NodeHealth.HEALTHY
    assert three_zones.verdict("a-0").signals.heartbeat.reason == "its agent was stopped in good order"


def test_records_that_expire_soon_after_a_new_leader_first_saw_them_were_not_taken_back(three_zones: World) -> None:
    three_zones.kill("a-0")
    three_zones.run(7)
    three_zones.begin_to_look()
    three_zones.run(30)
    assert three_zones.verdict("a-0").signals.heartbeat.truth == "true"
