"""A reader with a memory answers as one without."""

import json
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.wire.bad_request import BadRequest
from extender.wire.verbs import CachedArgsReader, read_args

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}


def body(names: Any, **fields: Any) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names} | fields).encode()


@given(st.lists(st.sampled_from("abcdef"), min_size=1), st.randoms())
def test_the_same_nodes_in_another_order_are_the_list_met_first(names: list[str], rng: random.Random) -> None:
    reader = CachedArgsReader()
    first = reader.read_args(body(names)).node_names
    assert reader.read_args(body(rng.sample(names, len(names)))).node_names is first
    assert set(first) == set(names)


SPELLINGS = st.sampled_from(["NodeNames", "nodeNames", "nodenames", "Nodes", "Pod", "pod"])
VALUES = st.one_of(st.none(), st.lists(st.sampled_from("abc"), max_size=3), st.just(POD), st.just({"items": []}))


@given(st.lists(st.dictionaries(SPELLINGS, VALUES), max_size=6))
def test_any_bodies_are_read_as_without_a_memory(bodies: list[dict[str, Any]]) -> None:
    reader = CachedArgsReader()
    for fields in bodies + bodies:
        data = json.dumps(fields).encode()
        assert outcome(reader.read_args, data) == outcome(read_args, data)


def outcome(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except BadRequest as error:
        return str(error)
