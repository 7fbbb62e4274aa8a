import contextlib
import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.state import keys, records
from leadsman.state.report_timing import ReportTiming, timing_for_nodes

COUNTS = st.integers(0, 2**63 - 1)
RTTS = st.floats(0, 60_000)
NAMES = st.text(max_size=30)
METRICS = st.from_regex(r"\A[a-zA-Z_][a-zA-Z0-9_]{0,20}\Z")


@st.composite
def windows(draw: st.DrawFn) -> records.PeerLatency:
    received = draw(st.integers(0, 30))
    low, middle, high = sorted(draw(st.tuples(RTTS, RTTS, RTTS))) if received else (None, None, None)
    sent = received + draw(st.integers(0, 30))
    return records.PeerLatency(sent=sent, received=received, min_ms=low, p50_ms=middle, p95_ms=high, jitter_ms=low)


NAMED = NAMES.filter(bool)
INTERVALS = st.floats(0, 120, exclude_min=True, allow_subnormal=False)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
OFFSETS = st.floats(-60_000, 60_000)
COORDINATES = st.builds(
    records.RingCoordinate,
    point=st.lists(OFFSETS, min_size=2, max_size=8).map(tuple),
    height=RTTS,
    adjustment=OFFSETS,
    error=st.floats(0, 1.5),
)
NEAR = st.lists(NAMES, max_size=8).map(tuple)
RECORDS = st.one_of(
    st.builds(records.Identity, owner=NAMED, epoch=COUNTS, address=NAMED, zone=NAMES, rack=NAMES),
    st.builds(records.Heartbeat, epoch=COUNTS, seq=COUNTS, push_interval_seconds=INTERVALS),
    st.builds(records.Latency, peers=st.dictionaries(NAMES, windows(), max_size=8)),
    st.builds(records.Hardware, values=st.dictionaries(METRICS, FINITE, max_size=8)),
    st.builds(records.RingEntry, NAMED, coordinate=st.none() | COORDINATES, reach_ms=st.none() | RTTS, near=NEAR),
    st.builds(records.ProbeRequest, target=NAMED),
    st.builds(
        records.CountedTotalsShard, st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, max_size=3), max_size=3)
    ),
)
KINDS = st.sampled_from(records.AnyRecord.__args__)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "peers", "seq"]), inner),
    max_leaves=8,
)


@given(RECORDS)
def test_a_record_survives_its_bytes(record: records.AnyRecord) -> None:
    assert records.decode_record(type(record), records.encode_record(record)) == record


@given(KINDS, st.binary(max_size=200) | JSON.map(lambda found: json.dumps(found).encode()))
@example(records.Latency, b"[" * 4096)
@example(records.Heartbeat, b'{"v":1,"x":' + b"[" * 4000)
@example(records.Hardware, b'{"v":1,"values":' + b'{"a":' * 800)
@example(records.Identity, b'{"v":1,"owner":"\xff"}')
@example(records.Heartbeat, b'{"v":1,"epoch":' + b"9" * 4000 + b"}")
def test_hostile_bytes_are_bad_records_and_nothing_else(kind: type[records.AnyRecord], data: bytes) -> None:
    with contextlib.suppress(records.BadRecord):
        records.decode_record(kind, data)


BEAT = {"v": 1, "epoch": 1, "seq": 1, "push_interval_seconds": 5.0}
PEER = {"sent": 2, "received": 2, "p50_ms": 1.0, "p95_ms": 1.0}


@pytest.mark.parametrize(
    ("kind", "document", "where"),
    [
        (records.Heartbeat, BEAT | {"v": 2}, "v"),
        (records.Heartbeat, BEAT | {"seq": -1}, r"\$\.seq"),
        (records.Heartbeat, BEAT | {"push_interval_seconds": 0}, r"\$\.push_interval_seconds"),
        (records.Heartbeat, BEAT | {"push_interval_seconds": 121}, r"\$\.push_interval_seconds"),
        (records.Latency, {"v": 1, "peers": {"b": PEER | {"p95_ms": 60_001}}}, r"p95_ms"),
        (records.Latency, {"v": 1, "peers": {"b": PEER | {"sent": 1}}}, r"\$\.peers"),
        (records.Latency, {"v": 1, "peers": {"b": PEER | {"received": 0}}}, r"with 0 replies"),
        (records.Latency, {"v": 1, "peers": {"b": {"sent": 2, "received": 1, "p50_ms": 1.0}}}, r"with 1 replies"),
        (records.Latency, {"v": 1, "peers": {"b": PEER | {"min_ms": 2.0}}}, r"min_ms 2.0 <= p50_ms"),
        (records.Latency, {"v": 1, "peers": {"b": PEER | {"method": "guess"}}}, r"method"),
        (records.Hardware, {"v": 1, "values": {"not a name": 1.0}}, r"values"),
        (records.Hardware, {"v": 1, "values": {"line_feed\n": 1.0}}, r"values"),
        (records.Identity, {"v": 1, "owner": "u" * 254, "epoch": 1, "address": "10.0.0.1"}, r"\$\.owner"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_its_place(
    kind: type[records.AnyRecord], document: object, where: str
) -> None:
    with pytest.raises(records.BadRecord, match=where):
        records.decode_record(kind, msgspec.json.encode(document))


@pytest.mark.parametrize(
    "record",
    [*(records.Hardware({"a": float(value)}) for value in ("nan", "inf", "-inf")), records.Heartbeat(1, -1, 5)],
)
def test_what_no_reader_would_take_cannot_be_written(record: records.AnyRecord) -> None:
    with pytest.raises(records.BadRecord, match=r"values|seq"):
        records.encode_record(record)


def test_more_than_4_kib_can_neither_be_written_nor_read() -> None:
    large = records.Hardware({f"metric_{i:0100}": 1.0 for i in range(40)})
    with pytest.raises(records.BadRecord, match="larger than 4096"):
        records.encode_record(large)
    with pytest.raises(records.BadRecord, match="larger than 4096"):
        records.decode_record(records.Hardware, msgspec.json.encode(large))


@given(st.floats(allow_nan=True), st.floats(allow_nan=True))
def test_whatever_can_be_built_keeps_the_inequality(push: float, call: float) -> None:
    try:
        timing = ReportTiming(push, call)
    except ValueError:
        return
    assert 0 < push + 2 * call <= timing.stale_seconds < timing.lease_seconds


@pytest.mark.parametrize(
    ("push", "call"), [(0, 1), (-1, 1), (121, 1), (5, 0), (5, 5.1), (float("nan"), 1), (0.05, 0.05)]
)
def test_what_breaks_it_is_refused_with_the_value(push: float, call: float) -> None:
    with pytest.raises(ValueError, match=f"{push}|{call}"):
        ReportTiming(push, call)


@pytest.mark.parametrize(("nodes", "push"), [(1, 5), (1_000, 5), (2_000, 10), (5_000, 25), (100_000, 120)])
def test_the_store_sees_at_most_200_reports_a_second_up_to_24_000_nodes(nodes: int, push: float) -> None:
    assert timing_for_nodes(ReportTiming(), nodes).push_interval_seconds == push
    assert nodes / push <= 200 or nodes > 24_000


LABELS = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?\Z")
NODES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
OF_NODES = st.sampled_from([records.Identity, records.Heartbeat, records.Latency, records.Hardware])


@given(NODES, OF_NODES)
@example("a" * 253, records.Identity)
def test_parsing_is_the_inverse_of_building(node: str, record: type[records.AnyRecord]) -> None:
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
    assert keys.record_key(one, records.Identity).startswith(keys.node_prefix(other)) is (one == other)


@given(NODES)
def test_a_ring_key_says_its_node_and_stands_where_the_name_belongs(node: str) -> None:
    key = keys.record_key(node, records.RingEntry)
    assert keys.parse_ring_key(key) == node
    assert key == f"{keys.RING_PREFIX}{keys.ring_position(node):016x}/{node}"
    assert keys.parse(key) is None


@pytest.mark.parametrize(
    "raw",
    ["", "a", keys.RING_PREFIX, f"{keys.RING_PREFIX}{0:016x}/a", keys.record_key("a", records.RingEntry) + "/", "\n"],
)
def test_who_stands_elsewhere_on_the_ring_is_nobody(raw: str) -> None:
    """An entry in a place of its writer's choice would make a part of the ring look crowded."""
    assert keys.parse_ring_key(raw) is None
