"""A request's memory is bounded before it is decoded: by its bytes, and by counts for which nothing is made."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from extender.body_limits import BodyLimits, BodyReader
from extender.handlers import REQUEST_BYTES_PER_NODE
from extender.wire.bad_request import MAX_NODES, BadRequest
from extender.wire.verbs import most_preemption_bytes, read_args, read_binding, read_preemption
from tests.extender.conftest import args, starts

MIB = 1 << 20
POD = b'{"metadata":{"name":"p"}}'


def nodes_of(items: bytes) -> bytes:
    return b'{"Pod":%b,"Nodes":{"items":[%b]}}' % (POD, items)


def names_of(names: bytes) -> bytes:
    return b'{"Pod":%b,"NodeNames":[%b]}' % (POD, names)


def peak_bytes(call: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refusal_peak(body: bytes) -> tuple[str, int]:
    """What read_args says, and the memory that it took for it."""
    with pytest.raises(BadRequest) as refused:
        read_args(body)

    def read() -> None:
        with pytest.raises(BadRequest):
            read_args(body)

    return str(refused.value), peak_bytes(read)


@pytest.mark.parametrize("count", [MAX_NODES, MAX_NODES + 1])
def test_20_000_nodes_are_read_and_no_more(count: int) -> None:
    named = [f"n{number}" for number in range(count)]
    in_names = names_of(b",".join(b'"%b"' % name.encode() for name in named))
    in_nodes = nodes_of(b",".join(b'{"metadata":{"name":"%b"}}' % name.encode() for name in named))
    if count == MAX_NODES:
        assert list(read_args(in_names).node_names) == list(read_args(in_nodes).node_names) == named
    else:
        assert refusal_peak(in_names)[0].startswith("$.NodeNames: more than 20000 names")
        assert refusal_peak(in_nodes)[0].startswith("$.Nodes.items: more than 20000 items")


@pytest.mark.parametrize(
    "make",
    [
        lambda: nodes_of(b"{}," * 3_000_000 + b"{}"),
        lambda: nodes_of(b"0," * 3_000_000 + b"0"),
        lambda: names_of(b'"n",' * 3_000_000 + b'"n"'),
        lambda: names_of(b'"%b"' % (b"n" * 9 * MIB)),
        lambda: nodes_of(b'{"metadata":{"name":"a"},"x":"%b"}' % (b"n" * 9 * MIB)),
        lambda: b'{"Pod":{"metadata":{"name":"p","labels":{%b}}}}' % b",".join(b'"%x":""' % n for n in range(900_000)),
        lambda: b'{"Pod":{"metadata":{"name":"p","ownerReferences":[%b{}]}}}' % (b"{}," * 3_000_000),
    ],
    ids=["empty nodes", "zeros", "names", "one name", "one node", "labels", "owners"],
)
def test_9_mb_of_tiny_values_or_of_one_are_refused_at_a_fraction_of_their_size(make: Callable[[], bytes]) -> None:
    """Decoded, the first are 190 MB and the labels 100 MB."""
    body = make()
    text, peak = refusal_peak(body)
    assert text.startswith(("$.Nodes.items", "$.NodeNames: ", "$.Pod: has "))
    assert len(body) > 6_000_000
    assert peak < 2 * MIB


def pods_of(pods: Iterable[str], field: str = "NodeNameToMetaVictims") -> bytes:
    return victims(f'"a":{{"Pods":[{",".join(pods)}]}}', field)


def victims(inner: str, field: str = "NodeNameToMetaVictims") -> bytes:
    return f'{{"Pod":{POD.decode()},"{field}":{{{inner}}}}}'.encode()


@pytest.mark.parametrize(
    "make",
    [
        lambda: victims(",".join(f'"{n:x}":{{}}' for n in range(50_000))),
        lambda: victims(",".join(f'"{n:x}":{{}}' for n in range(50_000)), "NodeNameToVictims"),
        lambda: pods_of(f'{{"UID":"{n:x}"}}' for n in range(50_000)),
        lambda: pods_of(f'{{"UID":"\U0001f600{n:x}{"x" * 99}"}}' for n in range(50_000)),
        lambda: pods_of(('{"metadata":{"uid":""}}' for _ in range(50_000)), "NodeNameToVictims"),
        lambda: victims(",".join(f'"{n:x}":{{"Pods":[{{"UID":"{n}"}}]}}' for n in range(50_000))),
    ],
    ids=["nodes", "nodes of victims", "pods", "pods with wide characters", "full pods", "a pod a node"],
)
def test_victims_take_no_more_memory_than_is_counted_before(make: Callable[[], bytes]) -> None:
    body = make()
    taken = peak_bytes(lambda: read_preemption(body))
    counted = most_preemption_bytes(body)
    assert counted / 8 < taken <= counted


async def test_what_is_decoded_counts_until_the_answer_is_sent() -> None:
    body = args([f"n{number}" for number in range(100)])
    enough = len(body) + 100 * REQUEST_BYTES_PER_NODE
    for limit, want in ((enough, 200), (enough - 1, 413)):
        bodies = BodyReader(BodyLimits(max_held_bytes=limit))
        async with starts(bodies=bodies) as extender:
            for verb in ("filter", "prioritize"):
                status, answer = await extender.post(f"/{verb}", body)
                assert (status, bodies.held_bytes) == (want, 0), answer
    assert b"bytes decoded, more than the limit of" in answer


async def test_victims_are_counted_before_they_are_decoded() -> None:
    body = pods_of(f'{{"UID":"{n:x}"}}' for n in range(1_000))
    bodies = BodyReader(BodyLimits(max_held_bytes=300_000))
    async with starts(bodies=bodies) as extender:
        assert (await extender.post("/preempt", body))[0] == 413
        few = json.loads(victims('"a":{"Pods":[{"UID":"1"}]}'))
        assert (await extender.post("/preempt", json.dumps(few).encode()))[0] == 200


async def test_a_binding_of_megabytes_is_refused() -> None:
    with pytest.raises(BadRequest, match="a binding is four names"):
        read_binding(b'{"PodName":"%b"}' % (b"x" * MIB))
