"""Nodes taken out of a body while it comes are those that the decoder of whole bodies reads."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.wire import nodes as candidates
from extender.wire.bad_request import BadRequest
from extender.wire.nodes import FORGET_SECONDS, KnownNodes, NodeStream
from extender.wire.verbs import CachedArgsReader, ExtenderArgs, read_args

POD = b'{"metadata":{"name":"p","uid":"u"}}'
A, B, C = (b'{"metadata":{"name":"%b"},"status":{}}' % name for name in (b"a", b"b", b"c"))


def body_of(*items: bytes, pod: bytes = POD, end: bytes = b']},"NodeNames":null}') -> bytes:
    return b'{"Pod":%b,"Nodes":{"metadata":{},"items":[%b%b' % (pod, b",".join(items), end)


def known_nodes(clock: Callable[[], float] = lambda: 0.0) -> KnownNodes:
    return KnownNodes(clock)


def streamed(body: bytes, known: KnownNodes, cuts: Sequence[int] = ()) -> NodeStream | ExtenderArgs:
    """The arguments of a body that came in pieces; the stream itself when it must be decoded whole."""
    stream, rest, begin = NodeStream(known), bytearray(), 0
    for end in [*sorted(cut % (len(body) + 1) for cut in cuts), len(body)]:
        rest += body[begin:end]
        stream.take(rest)
        begin = end
    taken = stream.finish(rest)
    if taken:
        return CachedArgsReader().read_node_args(*taken)
    assert stream.whole(rest) == body
    return stream


def read(body: bytes, known: KnownNodes, cuts: Sequence[int] = ()) -> ExtenderArgs:
    args = streamed(body, known, cuts)
    return args if isinstance(args, ExtenderArgs) else read_args(body)


def outcome(read: Callable[..., ExtenderArgs], *given: Any) -> Any:
    try:
        args = read(*given)
    except BadRequest as error:
        return str(error)
    nodes = None if args.raw_nodes is None else [(name, bytes(item)) for name, item in args.raw_nodes.items()]
    return args.pod, tuple(args.node_names), nodes


SOUND_NODES = [A, B, C, A[:-1] + b',"n":1}', B[:-1] + b',"n":"\xc3\xa4"}']
STRANGE_NODES = [
    A[:-1] + b',"spec":{"items":[1]}}',
    b'{"metadata":{"name":"a"},"x":[{"a":1},{"metadata":{"name":"b"}}]}',
    b'{"metadata":{"name":"b"},"x":"\xff"}',
    b'{"metadata":{"name":"b"},"x":"\\""}',
    b'{"metadata":{"name":"c"},"x":01}',
    b'{"metadata":{"name":"A_"}}',
    b'{"metadata":{"name":1}}',
    b'{"metadata":{"uid":"1","name":"d"}}',
    b'{"metadata":{"name":"a"}} ',
    b' {"metadata":{"name":"a"}}',
    b'{"metadata":{"name":"a"}',
    b'{"metadata":{"name":"a"}},"x":1}',
    b"null",
    b"",
]
STRANGE_PODS = [
    b"null",
    b'{"metadata":{"name":"p"},"x":\xff}',
    b'{"metadata":{"name":"p"},"x":' + body_of(A) + b"}",
    b'{"metadata":{"name":"p"},"x":' + body_of(A, B) + b"}",
    b'{"metadata":{"name":"p,\\"Nodes\\":{\\"metadata\\":{},\\"items\\":["}}',
    b'[{"y":1,"Nodes":{"metadata":{},"items":[' + A + b"," + B,
]
SOUND_END = b']},"NodeNames":null}'
STRANGE_ENDS = [
    SOUND_END + b"\n",
    b']},"NodeNames":["a"]}',
    b']},"NodeNames":null,"Nodes":{"items":[' + C + b"]}}",
    b']},"Nodes":{"metadata":{},"items":[' + C + SOUND_END,
    b"]}," + SOUND_END[2:] + b"}",
    b",]}}",
    b"]}}",
    b"]}",
    b"",
]


def mostly(sound: Sequence[bytes], strange: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(*[st.sampled_from(sound)] * 4, st.sampled_from(strange))


BODIES = st.builds(
    lambda items, pod, end: body_of(*items, pod=pod, end=end),
    st.lists(mostly(SOUND_NODES, STRANGE_NODES), max_size=4),
    mostly([POD], STRANGE_PODS),
    mostly([SOUND_END], STRANGE_ENDS),
)


@settings(max_examples=400, derandomize=True)
@given(st.lists(BODIES, min_size=1, max_size=4), st.lists(st.integers(0, 999), max_size=6))
@example([body_of(A, B), body_of(B, A[:-1] + b',"n":1}', C)], [70])
@example([body_of(A, B), body_of(A, b"")], [])
def test_any_bodies_in_any_pieces_are_read_as_whole_ones(bodies: list[bytes], cuts: list[int]) -> None:
    known = known_nodes()
    for body in bodies + bodies:
        assert outcome(read, body, known, cuts) == outcome(read_args, body)


def test_a_node_met_before_is_the_same_object_also_in_another_place() -> None:
    known = known_nodes()
    first, other = read(body_of(A, B, C), known), read(body_of(C, A), known)
    assert first.raw_nodes
    assert other.raw_nodes
    assert all(other.raw_nodes[name] is first.raw_nodes[name] for name in "ac")


def test_a_node_without_an_end_is_not_searched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_OBJECT_BYTES", 1_000)
    assert isinstance(streamed(body_of(A[:-1] + b',"n":"%b"}' % (b"x" * 2_000), B), known_nodes(), [1_500]), NodeStream)


def test_known_nodes_have_a_limit_and_what_has_no_room_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MAX_KNOWN_BYTES", 2 * (len(A) + candidates.KNOWN_NODE_BYTES))
    known = known_nodes()
    for _ in range(2):
        assert tuple(read(body_of(A, B, C), known).node_names) == ("a", "b", "c")
    assert (known.get(b"a") is not None, known.get(b"c")) == (True, None)


def test_known_nodes_are_forgotten_in_time() -> None:
    now = 0.0
    known = known_nodes(lambda: now)
    read(body_of(A, B), known)
    now = FORGET_SECONDS - 1
    NodeStream(known)
    assert len(known) == 2
    now = FORGET_SECONDS
    NodeStream(known)
    assert len(known) == 0
