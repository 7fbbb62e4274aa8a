"""What fits on one card, by GPU Aware Scheduling's labels and annotations and by NVIDIA's labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.devices.cards import card_requests, cards_left, largest_request, most_beside, place, whole_cards
from leadsman.cluster.devices.demand import (
    BadDemand,
    DeviceDemand,
    PodClaims,
    device_demand,
    extended_requests,
    readable_demand,
)
from leadsman.cluster.devices.node_devices import (
    ClaimFit,
    DeviceCount,
    LinkReading,
    NodeDevices,
    RequestedWay,
    can_have_first_ways,
    fit_claims,
    link_headroom_bits,
)
from leadsman.sources.cluster.pod_object import ResourceClaimFields

GB = 10**9
I915, MEMORY, TILES = "gpu.intel.com/i915", "gpu.intel.com/memory.max", "gpu.intel.com/tiles"
TWO_CARDS = {"gpu.intel.com/cards": "card0.card1"}
ROOM = {I915: 20, MEMORY: 16 * GB, TILES: 4}


def asks(memory: int, cards: int = 1, given: str = "", tiles: int = 0) -> DeviceDemand:
    held = tuple(tuple(part.split(",")) for part in given.split("|")) if given else ()
    return DeviceDemand(({I915: cards, MEMORY: memory, **({TILES: tiles} if tiles else {})},), cards=held)


def fits(demand: DeviceDemand, *others: DeviceDemand) -> bool:
    node = NodeDevices(ROOM, TWO_CARDS, {str(each): pod for each, pod in enumerate(others)})
    left = cards_left(node, I915)
    assert left is not None
    return place(left, list(card_requests(demand, I915))) is not None


def test_names_that_are_too_long_for_a_label_go_on_in_the_next() -> None:
    labels = {
        "gpu.intel.com/gpu-numbers": "0.1",
        "gpu.intel.com/gpu-numbers2": "Z.2",
        "gpu.intel.com/gpu-numbers3": "3",
    }
    cards = whole_cards(NodeDevices({I915: 3}, labels), I915)
    assert cards is not None
    assert [card.name for card in cards] == ["card0", "card1", "card2"], "the third does not begin with Z"


def test_a_pod_counts_on_the_card_that_its_annotation_names() -> None:
    on_one = [asks(4 * GB, given="card0"), asks(4 * GB, given="card0")]
    assert fits(asks(8 * GB), *on_one)
    assert not fits(asks(8 * GB), asks(4 * GB, given="card0"), asks(4 * GB, given="card1"))


def test_a_container_that_asks_for_two_cards_takes_half_of_its_memory_on_each() -> None:
    assert fits(asks(16 * GB, cards=2))
    assert not fits(asks(16 * GB, cards=2), asks(1 * GB))
    assert not fits(asks(3, cards=3))


def test_a_node_that_does_not_name_its_cards_has_an_unknown_amount_on_each_not_none() -> None:
    assert whole_cards(NodeDevices(ROOM), I915) is None
    for count in ("x", "0", "99999999"):
        labels = {"nvidia.com/gpu.count": count, "nvidia.com/gpu.memory": "8192"}
        assert whole_cards(NodeDevices({"nvidia.com/gpu": 8}, labels), "nvidia.com/gpu") is None


@pytest.mark.parametrize("card", ["nvidia.com/gpu", I915])
def test_a_card_that_is_unhealthy_takes_the_others_nothing(card: str) -> None:
    labels = {
        "nvidia.com/gpu.count": "8",
        "nvidia.com/gpu.memory": "8192",
        "gpu.intel.com/gpu-numbers": "0.1.2.3.4.5.6.7",
    }
    assert all(each.left[card] for each in whole_cards(NodeDevices({card: 7}, labels), card) or ())


def nvidia(*pods: DeviceDemand, replicas: int = 4) -> NodeDevices:
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "8192"}
    return NodeDevices({"nvidia.com/gpu": 2 * replicas}, labels, {str(each): pod for each, pod in enumerate(pods)})


def test_a_pod_that_says_nothing_may_use_all_of_a_shared_card() -> None:
    left = cards_left(nvidia(DeviceDemand(({"nvidia.com/gpu": 1},))), "nvidia.com/gpu")
    assert left is not None
    assert sorted(card.left["nvidia.com/gpu.memory"] for card in left) == [0, 8 << 30]


some = st.builds(asks, st.integers(1, 9 * GB), st.integers(1, 2), tiles=st.integers(0, 2))


@given(some, st.lists(some, max_size=4), st.lists(some, max_size=4))
def test_what_fits_wherever_pods_with_reservations_go_fits_where_they_are_counted(
    demand: DeviceDemand, bound: list[DeviceDemand], reserved: list[DeviceDemand]
) -> None:
    node = NodeDevices(ROOM, TWO_CARDS, {str(each): pod for each, pod in enumerate(bound)})
    wanted, others = list(card_requests(demand, I915)), sum(each.amount(I915) for each in reserved)
    if others <= most_beside(cards_left(node, I915) or (), wanted, largest_request(reserved, I915)):
        left = cards_left(node, I915, reserved)
        assert left is not None
        assert place(left, wanted) is not None


# Headroom of a link: speed less what may be sent, by rates and by what pods ask; what is not known is not nothing.

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


# Which way of a claim's requests a node's free devices allow.

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


# What a pod asks of devices: units are checked, and a value that cannot be read is named.

BANDWIDTH, EGRESS = "leadsman.dev/bandwidth", "kubernetes.io/egress-bandwidth"


@pytest.mark.parametrize(
    ("annotations", "bits"),
    [
        ({}, None),
        ({BANDWIDTH: "2Gbit"}, 2 * 10**9),
        ({BANDWIDTH: " 2.5 Gbit "}, 2_500_000_000),
        ({EGRESS: "1.5G"}, 1_500_000_000),
        ({EGRESS: "10M", BANDWIDTH: "1Mbit"}, 1_000_000),
    ],
)
def test_bandwidth_is_read_in_bits(annotations: dict[str, str], bits: int | None) -> None:
    assert device_demand((), annotations).bandwidth_bits == bits


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (BANDWIDTH, "2"),
        (BANDWIDTH, "2GB"),
        (BANDWIDTH, "-2Gbit"),
        (BANDWIDTH, "0Gbit"),
        (BANDWIDTH, ""),
        (BANDWIDTH, "٢Gbit"),
        (BANDWIDTH, "1001Tbit"),
        (EGRESS, "10Mbit"),
        ("leadsman.dev/device-memory", "5 GB"),
        ("leadsman.dev/device-memory", "-1"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_is_allowed(annotation: str, value: str) -> None:
    with pytest.raises(BadDemand) as caught:
        device_demand((), {annotation: value})
    assert annotation in str(caught.value)
    assert repr(value) in str(caught.value)
    assert "it must be a" in str(caught.value)


def test_only_extended_resources_are_devices() -> None:
    native: dict[str, str | int | float] = {
        "cpu": "2",
        "memory": "1Gi",
        "hugepages-2Mi": "4Mi",
        "kubernetes.io/x": 1,
        "a.kubernetes.io/y": 1,
    }
    assert extended_requests([native]) == ()
    assert extended_requests([native, {"nvidia.com/gpu": "2"}]) == ({}, {"nvidia.com/gpu": 2})


def test_a_claim_of_a_template_has_its_name_from_the_status() -> None:
    in_spec = [ResourceClaimFields("a", "mine"), *(ResourceClaimFields(name, None, f"of-{name}") for name in "bc")]
    claims = PodClaims.of(in_spec, [ResourceClaimFields("b", "pod-b-x7")])
    assert claims.names == ("mine", "pod-b-x7", "")
    assert claims.templates == ("of-c",), "from which a claim is still to be made"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "amd.com/gpu", "example.com/x"])
def test_memory_of_a_card_that_nobody_counts_is_refused_with_the_cards_that_are(resource: str) -> None:
    for containers in (({resource: 1},), ()):
        demand, problem = readable_demand(containers, {"leadsman.dev/device-memory": "5Gi"})
        assert "leadsman.dev/device-memory" in problem
        assert "gpu.intel.com/i915, gpu.intel.com/xe or nvidia.com/gpu" in problem
        assert demand.memory_bytes is None
    asks_one = ({resource: 1}, {"nvidia.com/gpu": 1})
    assert device_demand(asks_one, {"leadsman.dev/device-memory": "5Gi"}).memory_bytes == 5 << 30
