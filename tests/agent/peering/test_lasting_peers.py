"""Which peers' names may be labels, and how many that makes in a week of a cluster whose peers rotate."""

from random import Random

from agent.peering.peer_selection import (
    RANDOM_ARC_SIZE,
    RANDOM_REPLACE_SECONDS,
    SETTLED_SECONDS,
    SLOT_SECONDS,
    Arc,
    LastingPeers,
    PeerSelection,
    RingMember,
    RingReadResult,
)
from leadsman.network.vivaldi import Coordinate
from leadsman.state import keys
from leadsman.state.records import RingCoordinate, RingEntry

WEEK_SECONDS = 7 * 86400
RACK_NODES = 20
NOISE_MS = 0.05
"""Of a coordinate, as much as two nodes of a rack are apart: the near peers change all the time."""


def test_a_near_peer_has_a_slot_once_it_was_near_for_an_hour_with_pauses() -> None:
    lasting = LastingPeers(1)
    for now in (0, SETTLED_SECONDS / 2, SETTLED_SECONDS - 1):
        lasting.update(["ring"], ["near"], now)
        lasting.update(["ring"], [], now + 0.5)
        assert lasting.names == {"ring"}
    lasting.update(["ring"], ["near"], SETTLED_SECONDS)
    assert lasting.names == {"ring", "near"}


def test_a_taken_slot_is_free_again_a_day_after_its_peer_was_near_last() -> None:
    lasting = LastingPeers(1)
    for now in (0, SETTLED_SECONDS):
        lasting.update([], ["one"], now)
    lasting.update([], ["other"], SETTLED_SECONDS + 1)
    last = SETTLED_SECONDS + SLOT_SECONDS
    for now in range(int(SETTLED_SECONDS) + 1, int(last), 600):
        lasting.update([], ["other"], now)
        assert lasting.names == {"one"}
    lasting.update([], ["other"], last)
    assert lasting.names == {"other"}


class NoisyRing:
    """Racks along a line, 5 ms apart. Each reading of an entry has another error in its coordinate."""

    def __init__(self, nodes: int) -> None:
        self.rng = Random(1)
        self.names = sorted((f"node-{number}" for number in range(nodes)), key=keys.ring_position)
        self.rack_ms = {name: number // RACK_NODES * 5.0 for number, name in enumerate(sorted(self.names))}

    def coordinate(self, name: str) -> tuple[float, ...]:
        return (self.rack_ms[name], *(self.rng.gauss(0, NOISE_MS) for _ in range(3)))

    def member(self, name: str) -> RingMember:
        return RingMember(
            name, RingEntry("10.0.0.1", coordinate=RingCoordinate(self.coordinate(name), 0.03), reach_ms=0.2), 1
        )

    def arc(self, start: int, size: int) -> Arc:
        following = sorted(self.names, key=lambda name: (keys.ring_position(name) - start) % keys.RING_SIZE)[:size]
        return Arc(start, tuple(map(self.member, following)), False)


def test_in_a_week_of_rotation_among_1000_nodes_a_node_makes_hardly_more_series_than_on_its_first_day() -> None:
    ring, own = NoisyRing(1000), "node-7"
    coordinate = Coordinate(ring.coordinate(own), 0.03)
    selection = PeerSelection(own, 16, lambda: coordinate, Random(2))
    own_arc = ring.arc(keys.ring_position(own) + 1, 16)
    probed, labelled, first_day = set[str](), set[str](), 0
    for now in range(0, WEEK_SECONDS, int(RANDOM_REPLACE_SECONDS)):
        coordinate = Coordinate(ring.coordinate(own), 0.03)
        query = selection.next_query(now)
        at = ring.rng.randrange(1000)
        others = Arc(
            query.random_start,
            tuple(ring.member(ring.names[(at + step) % 1000]) for step in range(RANDOM_ARC_SIZE)),
            False,
        )
        selection.apply_result(RingReadResult(own_arc, others, tuple(map(ring.member, query.nodes))), query, now)
        peers = {peer.name for peer in selection.peers(now)}
        probed |= peers
        labelled |= peers & selection.lasting_names
        if now < 86400:
            first_day = len(labelled)
    assert len(probed) > 900, "the random peers rotate through the cluster"
    assert 8 + 4 <= first_day <= 16 + 4
    assert len(labelled) <= first_day + 4
