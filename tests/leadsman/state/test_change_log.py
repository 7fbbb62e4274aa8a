"""The log of changed nodes says what comparing all nodes' states says."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.state import keys
from leadsman.state.records import Heartbeat, encode_record
from leadsman.state.snapshot import Snapshot, changed_nodes
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Updated

NAMES = ("a", "b", "c")


def changed(before: Snapshot, node: str, seq: int | None) -> Snapshot:
    """One change of a node: its heartbeat, or None: it goes."""
    key, revision = keys.record_key(node, Heartbeat), before.revision + 1
    change = Deleted(key, revision) if seq is None else Updated(key, encode_record(Heartbeat(1, seq, 5.0)), revision)
    return apply_changes(before, [change], 1.0)


def compared(before: Snapshot, after: Snapshot) -> set[str]:
    old, new = before.nodes, after.nodes
    return {node for node in NAMES if old.get(node) is not new.get(node)}


steps = st.tuples(st.integers(0, 30), st.sampled_from(NAMES), st.none() | st.integers(0, 9))


@given(st.lists(steps, max_size=30))
def test_any_two_snapshots_of_a_tree_differ_by_the_nodes_that_comparing_finds(
    changes: list[tuple[int, str, int | None]],
) -> None:
    made = [Snapshot()]
    for predecessor, node, seq in changes:
        made.append(changed(made[-1 - predecessor % len(made)], node, seq))
    for before in made:
        for after in made:
            nodes = list(changed_nodes(before, after))
            assert set(nodes) == compared(before, after)
            assert len(nodes) == len(set(nodes))
