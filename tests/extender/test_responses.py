"""The bytes that kube-scheduler reads, whatever stands in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender import handlers

REASONS = st.dictionaries(st.text(max_size=9), st.text(max_size=20) | st.just('"here the nodes"'), max_size=5)


@pytest.mark.parametrize("count", [0, 1, 2, 23, 24, 25, 48, 49, 500])
def test_the_node_form_has_every_node_byte_for_byte_and_the_length_that_it_claims(count: int) -> None:
    items = [Raw(b'{ "n" : %d}' % number) for number in range(count)]
    length, chunks = handlers.filtered_nodes(items, {"x": 'a "reason"'})
    sent = b"".join(chunks)
    assert len(sent) == length
    assert json.loads(sent) == {
        "Nodes": {"metadata": {}, "items": [{"n": number} for number in range(count)]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"x": 'a "reason"'},
        "Error": "",
    }
    assert b",".join(bytes(item) for item in items) in sent


@given(REASONS)
def test_no_reason_can_take_the_place_of_the_nodes(reasons) -> None:
    answer = json.loads(b"".join(handlers.filtered_nodes([Raw(b"1")], reasons)[1]))
    assert (answer["Nodes"]["items"], answer["FailedAndUnresolvableNodes"]) == ([1], reasons)


@pytest.mark.parametrize(("count", "item_bytes"), [(3, 1 << 20), (5_000, 100), (1, 10), (0, 0)])
def test_full_nodes_are_sent_in_chunks_of_bounded_size(count: int, item_bytes: int) -> None:
    """24 nodes of 4 MiB were one chunk."""
    items = [Raw(b'"%b"' % (b"x" * item_bytes)) for _ in range(count)]
    length, made = handlers.filtered_nodes(items, {})
    chunks = list(made)
    assert max(map(len, chunks)) <= 300_000 + item_bytes
    assert len(json.loads(b"".join(chunks))["Nodes"]["items"]) == count
    assert length == sum(map(len, chunks))
    assert len(chunks) <= 3 + count * item_bytes // 100_000
