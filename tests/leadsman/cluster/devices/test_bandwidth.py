"""Headroom of a link: speed less what may be sent, by rates and by what pods ask; what is not known is not nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.devices.bandwidth import LinkReading, link_headroom_bits
from leadsman.cluster.devices.demand import DeviceDemand

G, VF = 10**9, "openshift.io/sriov"


def pod(gbit: float | None) -> DeviceDemand:
    return DeviceDemand(({VF: 1},), bandwidth_bits=None if gbit is None else int(gbit * G))


def headroom(reading: LinkReading, *gbits: float | None) -> float | None:
    bits = link_headroom_bits(reading, map(pod, gbits), [VF])
    return None if bits is None else bits / G


IDLE = LinkReading(10 * G, 0, 0)


@pytest.mark.parametrize(
    ("reading", "pods", "left"),
    [
        (IDLE, (), 10),
        # max_tx_rate 0 is unlimited: the pods' own requests count
        (IDLE, (2, 2, 2, 2), 2),
        # all rates are set: they count, and no pod twice
        (LinkReading(4 * G, 6 * G, 3), (2, 2, 2), 4),
        # two of three are set
        (LinkReading(6 * G, 4 * G, 2), (2, 2, 2), 4),
        # a rate is set of a pod that says nothing
        (LinkReading(7 * G, 3 * G, 1), (None,), 7),
        # a pod that says nothing has no rate
        (IDLE, (None,), None),
        # ... or one of two has none, and nobody knows which
        (LinkReading(7 * G, 3 * G, 1), (None, 2), None),
        # a rate of a pod that has just ended does not hide what the next one asks
        (LinkReading(9 * G, 1 * G, 1), (5,), 5),
        # two physical functions, 6 and 4 Gbit/s limited: the worst one has 4 left
        (LinkReading(4 * G, 10 * G, 5), (2, 2, 2, 2, 2), 4),
    ],
)
def test_headroom(reading: LinkReading, pods: tuple[float | None, ...], left: float | None) -> None:
    assert headroom(reading, *pods) == left


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_rates_that_are_set_one_after_another_never_leave_more_than_all_of_them(
    data: st.DataObject, gbits: list[int]
) -> None:
    """While CNI plugins set the rates that the pods asked for, headroom is never overstated."""
    limited = data.draw(st.lists(st.sampled_from(range(len(gbits))), unique=True))
    rates = [gbits[each] for each in limited]
    partly = LinkReading((30 - sum(rates)) * G, sum(rates) * G, len(rates))
    left = headroom(partly, *gbits)
    assert left is not None
    assert left <= 30 - sum(gbits)
