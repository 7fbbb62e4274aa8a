from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.testbed.links import LinkProperties, Links, destination

A, B = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])


def packet(to=B, body=b""):
    return bytes([0x45]) + bytes(15) + to + body


def links(seed=1, **path):
    found = Links({A: 0, B: 1}, Random(seed))
    found.set_path(0, 1, LinkProperties(**path))
    return found


def test_half_of_the_round_trip_is_added_each_way() -> None:
    path = links(rtt_ms=40.0)
    path.enter(0, packet(B), 1.0)
    path.enter(1, packet(A), 2.0)
    assert path.next_due == 1.020
    assert path.leave(1.0199) == []
    assert [(d.host, d.packet) for d in path.leave(1.020)] == [(1, packet(B))]
    assert [d.host for d in path.leave(2.020)] == [0]
    assert path.next_due is None


def test_packets_due_together_leave_in_the_order_of_entering() -> None:
    path = links(rtt_ms=1.0)
    for number in range(50):
        path.enter(0, packet(body=bytes([number])), 1.0)
    assert [d.packet[-1] for d in path.leave(2.0)] == list(range(50))


def test_a_change_holds_for_packets_that_enter_after_it() -> None:
    path = links(rtt_ms=40.0)
    path.enter(0, packet(), 1.0)
    path.set_path(0, 1, LinkProperties(rtt_ms=2.0))
    path.enter(0, packet(), 1.0)
    assert [d.due for d in path.leave(2.0)] == [1.001, 1.020]


@pytest.mark.parametrize("loss_ratio", [0.0, 0.2, 1.0])
def test_of_round_trips_the_loss_ratio_is_lost(loss_ratio: float) -> None:
    path, trips = links(loss_ratio=loss_ratio), 10_000
    for _ in range(trips):
        path.enter(0, packet(B), 1.0)
    for departure in path.leave(1.0):
        path.enter(departure.host, packet(A), 1.0)
    assert len(path.leave(1.0)) / trips == pytest.approx(1 - loss_ratio, abs=0.02)


def test_the_same_seed_loses_the_same_packets() -> None:
    def survivors(seed):
        path = links(seed, loss_ratio=0.5)
        for number in range(100):
            path.enter(0, packet(body=bytes([number])), 1.0)
        return [d.packet[-1] for d in path.leave(1.0)]

    assert survivors(1) == survivors(1) != survivors(2)


def test_a_block_of_256_addresses_belongs_to_a_host() -> None:
    path = Links({bytes([10, 214, 7]): 1}, Random(1))
    path.enter(0, packet(bytes([10, 214, 7, 200])), 1.0)
    assert [d.host for d in path.leave(1.0)] == [1]


def test_a_packet_to_nobody_vanishes() -> None:
    path = links()
    path.enter(0, packet(bytes([10, 9, 9, 9])), 1.0)
    assert path.next_due is None


def test_an_ipv6_packet_goes_to_its_destination() -> None:
    to = bytes(range(16))
    assert destination(bytes([0x60]) + bytes(23) + to) == to


@given(st.binary(max_size=60))
@example(b"")
@example(bytes([0x45]) * 19)
@example(bytes([0x60]) * 39)
def test_any_bytes_have_a_destination_or_none(data) -> None:
    found = destination(data)
    assert found is None or len(found) in (4, 16)


@pytest.mark.parametrize(
    "path",
    [
        LinkProperties(-1.0),
        LinkProperties(float("nan")),
        LinkProperties(float("inf")),
        LinkProperties(1, -0.1),
        LinkProperties(1, 1.1),
    ],
)
def test_a_path_that_no_network_has_is_refused_by_name(path) -> None:
    with pytest.raises(ValueError, match=r"(rtt_ms|loss_ratio) .*: want"):
        path.validated()
