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


@pytest.mark.parametrize(
    "raw",
    [
        "/leadsman/v1/nodes/a/",
        "/leadsman/v1/nodes/a",
        "/leadsman/v1/nodes//identity",
        "/leadsman/v1/nodes/a/notes/link",
        "/leadsman/v2/nodes/a/identity",
        "leadsman/v1/nodes/a/identity",
        "/leadsman/v1/nodes/a/identity\n",
        "/leadsman/v1/nodes/a\n/identity",
        "/leadsman/v1/nodes/A/identity",
        "/leadsman/v1/nodes/" + "a" * 254 + "/identity",
        "a/identity",
    ],
)
def test_a_key_that_is_not_ours_is_no_fault_and_no_node(raw: str) -> None:
    assert keys.parse(raw) is None


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


@given(NODES, NODES)
def test_ring_keys_stand_in_the_order_of_their_places(one: str, other: str) -> None:
    assert (keys.record_key(one, RingEntry) < keys.record_key(other, RingEntry)) is (
        (keys.ring_position(one), one) < (keys.ring_position(other), other)
    )
    assert (
        keys.ring_position_prefix(keys.ring_position(one))
        < keys.record_key(one, RingEntry)
        < keys.ring_position_prefix(keys.ring_position(one) + 1)
    )


def test_the_place_of_a_name_never_changes() -> None:
    """It is part of etcd's roles and of other agents' reads."""
    assert keys.record_key("edge-1", RingEntry) == "/leadsman/v1/ring/808a824589bb82ad/edge-1"


@pytest.mark.parametrize(
    "raw", ["", "a", keys.RING_PREFIX, f"{keys.RING_PREFIX}{0:016x}/a", keys.record_key("a", RingEntry) + "/", "\n"]
)
def test_who_stands_elsewhere_on_the_ring_is_nobody(raw: str) -> None:
    """An entry in a place of its writer's choice would make a part of the ring look crowded."""
    assert keys.parse_ring_key(raw) is None


@given(NODES, NODES)
def test_a_request_stands_under_the_prefix_of_who_is_asked(node: str, target: str) -> None:
    assert keys.probe_request_key(node, target) == f"{keys.probes_prefix(node)}{target}"
    assert keys.probes_prefix(node).startswith(keys.PROBES_PREFIX)
    with pytest.raises(ValueError, match="must be lower-case letters"):
        keys.probe_request_key(node, target + "/x")


def test_what_an_agent_counted_stands_where_earlier_agents_look_for_it() -> None:
    uid = "0c3a8f5e-7a53-4a3b-9d0e-6f1b2c3d4e5f"
    key = keys.counted_totals_key("edge-1", keys.counted_shard(uid))
    assert key == "/leadsman/v1/nodes/edge-1/counted/1"
    assert key.startswith(keys.counted_totals_prefix("edge-1"))
    assert keys.parse(key) is None


@pytest.mark.parametrize("shard", ["", "g", "10", "a/b"])
def test_what_is_no_shard_has_no_key(shard: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal digit"):
        keys.counted_totals_key("edge-1", shard)
