"""A node's own coordinate, from replies and from what peers say of themselves, however old or wrong."""

from random import Random

from agent.peering.peer_refresh import MAX_USES_PER_READ, OwnCoordinate
from leadsman.network.vivaldi import Coordinate


def line(ms: float, error: float = 0.1) -> Coordinate:
    return Coordinate((ms, 0.0, 0.0, 0.0), 0.01, 0.0, error)


def readings(one: OwnCoordinate, peers: dict[str, Coordinate], rtts: dict[str, float], count: int) -> None:
    for _ in range(count):
        one.on_peers_read(peers)
        for _ in range(MAX_USES_PER_READ):
            for name in peers:
                one.update(name, rtts[name])


LANDMARKS = {f"n{ms}": line(float(ms)) for ms in (0, 10, 20, 30, 40, 50)}


def rtts(here: float) -> dict[str, float]:
    return {name: abs(there.point[0] - here) + 1.0 for name, there in LANDMARKS.items()}


def test_one_reading_of_a_coordinate_is_used_a_few_times_only() -> None:
    """Otherwise two nodes that read each other seldom would pass each other again and again."""
    one, other = OwnCoordinate(Random(1)), OwnCoordinate(Random(1))
    for each, times in ((one, 100), (other, MAX_USES_PER_READ)):
        each.on_peers_read({"a": line(0.0)})
        for _ in range(times):
            each.update("a", 10.0)
    assert one.current == other.current


def test_two_stragglers_in_a_row_count_as_the_replies_before_them() -> None:
    def heard(rtt_ms: float) -> Coordinate:
        one = OwnCoordinate(Random(1))
        readings(one, LANDMARKS, rtts(24.0), 10)
        one.on_peers_read(LANDMARKS)
        for _ in range(2):
            one.update("n0", rtt_ms)
        return one.current

    assert heard(900.0) == heard(rtts(24.0)["n0"])
