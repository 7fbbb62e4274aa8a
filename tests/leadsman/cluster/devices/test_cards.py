"""What fits on one card, by GPU Aware Scheduling's labels and annotations and by NVIDIA's labels."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.devices.card_room import largest_request, most_beside
from leadsman.cluster.devices.cards import card_requests, cards_left, place, whole_cards
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices

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


def test_of_three_pods_of_5_gb_the_third_fits_on_neither_card_of_8_gb() -> None:
    assert fits(asks(5 * GB))
    assert fits(asks(5 * GB), asks(5 * GB))
    assert not fits(asks(5 * GB), asks(5 * GB), asks(5 * GB))
    assert fits(asks(3 * GB), asks(5 * GB), asks(5 * GB))


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
    assert whole_cards(NodeDevices({"nvidia.com/gpu": 8}, {"nvidia.com/gpu.count": "x"}), "nvidia.com/gpu") is None


def nvidia(*pods: DeviceDemand, replicas: int = 4) -> NodeDevices:
    labels = {"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "8192"}
    return NodeDevices({"nvidia.com/gpu": 2 * replicas}, labels, {str(each): pod for each, pod in enumerate(pods)})


SHARED = DeviceDemand(({"nvidia.com/gpu": 1},))
GIB_5 = DeviceDemand(({"nvidia.com/gpu": 1},), memory_bytes=5 << 30)


def test_memory_of_an_nvidia_card_is_asked_by_annotation() -> None:
    requests = list(card_requests(GIB_5, "nvidia.com/gpu"))
    for pods, placed in (((), True), ((GIB_5,), True), ((GIB_5, GIB_5), False)):
        left = cards_left(nvidia(*pods), "nvidia.com/gpu")
        assert left is not None
        assert (place(left, requests) is not None) is placed


def test_a_pod_that_says_nothing_may_use_all_of_a_shared_card() -> None:
    left = cards_left(nvidia(SHARED), "nvidia.com/gpu")
    assert left is not None
    assert sorted(card.left["nvidia.com/gpu.memory"] for card in left) == [0, 8 << 30]


def beside(demand: DeviceDemand, bound: Sequence[DeviceDemand], reserved: Sequence[DeviceDemand]) -> bool:
    node = NodeDevices(ROOM, TWO_CARDS, {str(each): pod for each, pod in enumerate(bound)})
    left, others = cards_left(node, I915) or (), sum(each.amount(I915) for each in reserved)
    return others <= most_beside(left, list(card_requests(demand, I915)), largest_request(reserved, I915))


some = st.builds(asks, st.integers(1, 9 * GB), st.integers(1, 2), tiles=st.integers(0, 2))


@given(some, st.lists(some, max_size=4), st.lists(some, max_size=4))
def test_what_fits_wherever_pods_with_reservations_go_fits_where_they_are_counted(
    demand: DeviceDemand, bound: list[DeviceDemand], reserved: list[DeviceDemand]
) -> None:
    if beside(demand, bound, reserved):
        node = NodeDevices(ROOM, TWO_CARDS, {str(each): pod for each, pod in enumerate(bound)})
        left = cards_left(node, I915, reserved)
        assert left is not None
        assert place(left, list(card_requests(demand, I915))) is not None
