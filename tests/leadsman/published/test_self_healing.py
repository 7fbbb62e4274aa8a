"""What the controller publishes is what extenders and the next leader read."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.cluster.resources import Resources
from leadsman.published.documents import MAX_BYTES, BadDocument, DocumentTooLarge
from leadsman.published.self_healing import (
    BACKUPS,
    SELF_HEALING,
    BackupMemory,
    DeadNode,
    Hold,
    LastRoundTrips,
    PodRecovery,
    RecoveryState,
    RememberedBackup,
    SelfHealingState,
)

names = st.text(min_size=1, max_size=4)
times = st.floats(0, 1e10)
times_or_none = st.none() | times
amounts = st.integers(-(2**63), 2**63 - 1)
resources = st.builds(Resources, amounts, amounts, amounts, st.dictionaries(names, amounts, max_size=2))
holds = st.builds(Hold, names, names, resources, times, names)
recovered = st.builds(
    PodRecovery, names, names, names, names, times, times, st.just("") | names, names, times_or_none, times_or_none
)
dead_nodes = st.builds(
    DeadNode,
    names,
    st.text(),
    times_or_none,
    times_or_none,
    times,
    times_or_none,
    times_or_none,
    st.dictionaries(names, recovered, max_size=2),
)
recoveries = st.builds(
    RecoveryState,
    st.dictionaries(names, st.text(), max_size=2),
    st.dictionaries(names, dead_nodes, max_size=2),
    st.lists(times, max_size=2).map(tuple),
    st.dictionaries(names, st.text(), max_size=2),
    st.lists(holds, max_size=2).map(tuple),
)
states = st.builds(
    SelfHealingState,
    recoveries,
    times,
    st.dictionaries(names, st.builds(LastRoundTrips, times, st.dictionaries(names, times, max_size=2)), max_size=2),
    st.dictionaries(names, st.lists(names, max_size=2).map(tuple), max_size=2),
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)


rtts = st.dictionaries(names, st.floats(0, 1e6), max_size=3)
backups = st.dictionaries(names, st.builds(RememberedBackup, names, names, rtts), max_size=5)


@given(states, st.builds(BackupMemory, times, backups))
def test_what_was_written_is_read_the_same(state: SelfHealingState, memory: BackupMemory) -> None:
    assert SELF_HEALING.decode(SELF_HEALING.encode(state)) == state
    assert BACKUPS.decode(BACKUPS.encode(memory)) == memory


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_stands_there_is_a_state_or_a_state_error(text: bytes) -> None:
    with contextlib.suppress(BadDocument):
        assert isinstance(SELF_HEALING.decode(text), SelfHealingState)


def test_a_state_that_no_config_map_holds_is_neither_written_nor_read() -> None:
    state = SelfHealingState(RecoveryState(refused={"edge-1": "x" * MAX_BYTES}))
    with pytest.raises(DocumentTooLarge, match=r"^it has 921,\d{3} bytes; at most 921,600 are allowed$"):
        SELF_HEALING.encode(state)
    with pytest.raises(DocumentTooLarge):
        SELF_HEALING.decode(b" " * (MAX_BYTES + 1))
