import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.state import keys
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, RingEntry

LABELS = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?\Z")
NODES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
KINDS = st.sampled_from([Identity, Heartbeat, Latency, Hardware])


@given(NODES, KINDS)
@example("a" * 253, Identity)
def test_parsing_is_the_inverse_of_building(node: str, record: type[AnyRecord]) -> None:
    key = keys.parse(keys.record_key(node, record))
    assert key is not None
    assert (key.node, keys.RECORD_BY_KIND[key.kind], str(key)) == (node, record, keys.record_key(node, record))


@given(st.text(max_size=40) | st.text(max_size=20).map(lambda end: keys.NODES_PREFIX + end))
def test_a_key_is_parsed_only_if_it_is_the_one_that_would_be_built(raw: str) -> None:
    key = keys.parse(raw)
    assert key is None or str(key) == raw


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b", "a\n", "../b", "ä", "a" * 254])
def test_a_name_that_would_leave_its_prefix_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be lower-case letters"):
        keys.node_prefix(name)


@given(NODES, NODES)
def test_one_nodes_keys_never_stand_under_another_nodes_prefix(one: str, other: str) -> None:
    assert keys.record_key(one, Identity).startswith(keys.node_prefix(other)) is (one == other)


@given(NODES)
def test_a_ring_key_says_its_node_and_stands_where_the_name_belongs(node: str) -> None:
    key = keys.record_key(node, RingEntry)
    assert keys.parse_ring_key(key) == node
    assert key == f"{keys.RING_PREFIX}{keys.ring_position(node):016x}/{node}"
    assert keys.parse(key) is None


@pytest.mark.parametrize(
    "raw", ["", "a", keys.RING_PREFIX, f"{keys.RING_PREFIX}{0:016x}/a", keys.record_key("a", RingEntry) + "/", "\n"]
)
def test_who_stands_elsewhere_on_the_ring_is_nobody(raw: str) -> None:
    """An entry in a place of its writer's choice would make a part of the ring look crowded."""
    assert keys.parse_ring_key(raw) is None
