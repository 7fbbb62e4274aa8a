"""A reader with a memory answers as one without."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.handlers import CACHED_LISTS, MAX_CACHED_BYTES, MAX_CACHED_POD_BYTES, CachedArgsReader
from extender.wire.errors import BadRequest
from extender.wire.verbs import read_args

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}


def body(names: Any, **fields: Any) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names} | fields).encode()


def test_the_same_list_is_the_same_object_for_another_pod() -> None:
    reader = CachedArgsReader()
    first = reader.read_args(body(["a", "b", "a"]))
    other = reader.read_args(body(["a", "b", "a"], Pod={"metadata": {"name": "q", "labels": {"app": "y"}}}))
    assert other.node_names is first.node_names == ("a", "b")
    assert (first.pod.name, other.pod.name, other.pod.labels) == ("p", "q", {"app": "y"})


@pytest.mark.parametrize("nodes", [3, 100, 1000, 5000])
def test_what_kube_scheduler_asks_after_a_filter_call_that_refused_nothing_is_not_decoded_again(
    captured: Callable[[str], bytes], nodes: int
) -> None:
    """The two bodies are the same bytes."""
    reader = CachedArgsReader()
    asked = reader.read_args(bytearray(captured(f"names-{nodes}-filter")))
    assert reader.read_args(bytearray(captured(f"names-{nodes}-prioritize"))) is asked


def test_the_same_pod_is_the_same_object_for_other_nodes() -> None:
    reader = CachedArgsReader()
    first, other = (reader.read_args(body(names)) for names in (["a", "b"], ["a"]))
    assert other.pod is first.pod
    assert other.node_names == ("a",)


def test_a_large_pod_is_not_kept() -> None:
    reader, large = CachedArgsReader(), POD | {"spec": {"nodeName": "x" * MAX_CACHED_POD_BYTES}}
    first, other = (reader.read_args(body(names, Pod=large)) for names in (["a", "b"], ["a"]))
    assert other.pod is not first.pod


def test_a_list_that_differs_in_a_byte_is_read() -> None:
    reader = CachedArgsReader()
    assert [reader.read_args(body(names)).node_names for names in (["a", "b"], ["a", "c"])] == [("a", "b"), ("a", "c")]


@given(st.lists(st.sampled_from("abcdef"), min_size=1), st.randoms())
def test_the_same_nodes_in_another_order_are_the_list_met_first(names: list[str], rng: random.Random) -> None:
    reader = CachedArgsReader()
    first = reader.read_args(body(names)).node_names
    assert reader.read_args(body(rng.sample(names, len(names)))).node_names is first
    assert set(first) == set(names)


def test_fewer_or_more_nodes_are_another_list() -> None:
    reader = CachedArgsReader()
    asked = [["b", "a"], ["a"], ["c", "b", "a"], []]
    assert [reader.read_args(body(names)).node_names for names in asked] == [("b", "a"), ("a",), ("c", "b", "a"), ()]


def test_lists_that_were_not_met_lately_are_forgotten() -> None:
    reader = CachedArgsReader()
    first = reader.read_args(body(["a"])).node_names
    for number in range(2 * CACHED_LISTS):
        reader.read_args(body([f"n-{number}"]))
    assert reader.read_args(body(["a"])).node_names is not first


def test_a_large_list_is_not_kept() -> None:
    reader, large = CachedArgsReader(), body(["x" * MAX_CACHED_BYTES])
    assert reader.read_args(large).node_names is not reader.read_args(large).node_names


@pytest.mark.parametrize(
    "broken",
    [b"", b"[]", body([1]), body(["a"], Pod=None), body(None), body("a"), body(["a"])[:-1], body({"a": 1}), b"\xff"],
)
def test_a_bad_body_is_refused_in_the_same_words(broken: bytes) -> None:
    reader = CachedArgsReader()
    reader.read_args(body(["a"]))
    with pytest.raises(BadRequest) as told:
        read_args(broken)
    for _ in range(2):
        with pytest.raises(BadRequest) as caught:
            reader.read_args(broken)
        assert str(caught.value) == str(told.value)


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


@pytest.mark.parametrize("bad", [{"Nodes": -1}, {"Pod": None, "pod": POD}], ids=["nodes beside", "a pod misspelt"])
def test_a_known_list_does_not_hide_what_is_wrong_beside_it(bad: dict[str, Any]) -> None:
    reader = CachedArgsReader()
    reader.read_args(body(["a"]))
    with pytest.raises(BadRequest):
        reader.read_args(body(["a"], **bad))
