"""Which way of a claim's requests a node's free devices allow."""

import pytest

from leadsman.cluster.devices.claims import ClaimFit, RequestedWay, can_have_first_ways, fit_claims
from leadsman.cluster.devices.node_devices import DeviceCount, NodeDevices

LARGE, SMALL, ALL = (
    RequestedWay("large", "large", 2),
    RequestedWay("small", "small"),
    RequestedWay("all", "large", None),
)


def node(large: tuple[int, int] = (0, 0), small: tuple[int, int] = (0, 0)) -> NodeDevices:
    counts = {"large": DeviceCount(*large), "small": DeviceCount(*small)}
    return NodeDevices(selected={name: count for name, count in counts.items() if count.total})


@pytest.mark.parametrize(
    ("requests", "devices", "expected"),
    [
        (((LARGE,),), node(large=(8, 8)), ClaimFit((0,), 6 / 8)),
        (((LARGE,),), node(large=(8, 1)), None),
        (((LARGE,),), node(small=(8, 8)), None),
        (((ALL,),), node(large=(8, 8)), ClaimFit((0,), 0.0)),
        (((ALL,),), node(large=(8, 7)), None),
        (((ALL,),), node(), None),
        (((LARGE, SMALL),), node(large=(8, 2), small=(4, 4)), ClaimFit((0,), 0.0)),
        (((LARGE, SMALL),), node(large=(8, 1), small=(4, 4)), ClaimFit((1,), 3 / 4)),
        (((LARGE, SMALL), (LARGE, SMALL)), node(large=(8, 3), small=(4, 4)), ClaimFit((0, 1), 4 / 12)),
        (((LARGE,), (LARGE,)), node(large=(8, 3)), None),
        ((), node(), ClaimFit((), 0.0)),
    ],
)
def test_each_request_takes_the_first_way_that_is_free(
    requests: tuple[tuple[RequestedWay, ...], ...], devices: NodeDevices, expected: ClaimFit | None
) -> None:
    assert fit_claims(devices, requests) == expected


def test_a_node_can_have_the_first_ways_when_its_devices_suffice_for_all_of_them_together() -> None:
    both = ((LARGE, SMALL), (LARGE, SMALL))
    assert can_have_first_ways(node(large=(4, 0)), both), "free or not"
    assert not can_have_first_ways(node(large=(3, 3)), both)
    assert not can_have_first_ways(node(small=(8, 8)), ((ALL, SMALL),))
