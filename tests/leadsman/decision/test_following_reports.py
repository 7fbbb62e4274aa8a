"""Decisions on one snapshot after another, with what the views before left, are those of a new view."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import decide
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.view import Views
from leadsman.state import keys
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Latency, PeerLatency, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Updated

NODES = CandidateNodes.of(("a", "b", "c", "d", "e"))
POD = PodInfo("default", "p", labels={"delay_a": "20", "delay_b": "50"})
NOW = 100.0

nodes = st.sampled_from(NODES)
windows = st.floats(1, 90).map(lambda ms: PeerLatency(30, 30, ms, ms, ms))
records: st.SearchStrategy[AnyRecord] = st.one_of(
    st.builds(Heartbeat, st.just(1), st.integers(0, 99), st.sampled_from([5.0, 60.0])),
    st.dictionaries(nodes, windows, min_size=1).map(Latency),
    st.floats(0, 1).map(lambda share: Hardware({CPU_PRESSURE: share})),
)
reports = st.tuples(nodes, records, st.booleans())


def reported(before: Snapshot, node: str, record: AnyRecord, gone: bool, now: float) -> Snapshot:
    key, revision = keys.record_key(node, type(record)), before.revision + 1
    change = Deleted(key, revision) if gone else Updated(key, encode_record(record), revision)
    return apply_changes(before, [change], now)


@given(st.lists(st.tuples(st.lists(reports, max_size=6), st.floats(0, 8), st.integers(0, 2)), max_size=12))
def test_decisions_while_nodes_report_are_those_made_from_the_start(
    batches: list[tuple[list[tuple[str, AnyRecord, bool]], float, int]],
) -> None:
    views, now, snapshots = Views(), NOW, [Snapshot()]
    for batch, seconds, steps_back in batches:
        now += seconds
        newest = snapshots[-1]
        for node, record, gone in batch:
            newest = reported(newest, node, record, gone, now)
        snapshots.append(newest)
        kept = DecisionInputs(snapshots[-1 - min(steps_back, len(snapshots) - 1)], Policy(), now, views)
        assert decide(POD, NODES, kept) == decide(POD, NODES, structs.replace(kept, views=Views()))
