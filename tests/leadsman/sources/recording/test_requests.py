"""Requests come back from a recording as they were decided, with the inputs that they were decided on."""

import contextlib
import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import FilterResult, decide, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes
from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.recording.messages import FORMAT, DecidedRequest, Head, RequestEncoder
from leadsman.sources.recording.reader import BadRecording, RequestDecoder
from leadsman.state.records import Heartbeat
from tests.changing_inputs import NODES, changing_inputs, random_pod


def decided_requests(rng: random.Random, steps: int = 8) -> Iterator[DecidedRequest]:
    """Filter and prioritize as kube-scheduler calls them, and preempt now and then."""
    for number, inputs in enumerate(changing_inputs(rng, steps)):
        pod, nodes = random_pod(rng, number), CandidateNodes(rng.sample(NODES, rng.randrange(1, len(NODES))))
        result = filter_nodes(pod, nodes, inputs)
        yield DecidedRequest("filter", pod, nodes, inputs, result, rng.choice(["", "", "too late"]))
        scores = score_nodes(pod, result.kept, inputs).scores
        later = structs.replace(inputs, now=inputs.now + 0.003)
        yield DecidedRequest("prioritize", pod, result.kept, later, scores)
        if rng.random() < 0.2:
            victims = dict.fromkeys(nodes, ("placeholder-1", "uid"))
            yield DecidedRequest("preempt", pod, nodes, later, result, "", victims)


def through_a_recording(requests: Iterable[DecidedRequest]) -> list[DecidedRequest]:
    """After every five the recording begins again, as a new segment does."""
    encoder, decoder, read = RequestEncoder(), RequestDecoder(), list[DecidedRequest]()
    for number, request in enumerate(requests):
        if number % 5 == 0:
            encoder.begin()
            decoder = RequestDecoder()
        read += (each.request for each in decoder.decode(encoder.block(list(encoder.encode(request)), 1.0, 2.0)))
        assert not decoder.left_out, decoder.why
    return read


@given(st.integers(0, 10**6))
def test_the_request_comes_back(seed: int) -> None:
    """And its answer can be made again."""
    requests = list(decided_requests(random.Random(seed)))
    for request, read in zip(requests, through_a_recording(requests), strict=True):
        assert plain(read.inputs) == plain(request.inputs)
        assert read.answer == request.answer
        if isinstance(request.answer, FilterResult):
            assert list(read.answer.refused) == list(request.answer.refused), "in the order of the answer"
        asked = (request.verb, request.nodes, request.fault, request.inputs.now)
        assert (read.verb, read.nodes, read.fault, read.inputs.now) == asked
        assert {node: tuple(uids) for node, uids in read.victims.items()} == request.victims
        assert read.pod.annotations == {"leadsman.dev/delay-estimate": "accept"}
        assert structs.replace(read.pod, annotations=request.pod.annotations) == request.pod
        made, again = (decide(each.pod, each.nodes, each.inputs) for each in (request, read))
        assert (made.kept, list(made.refused.items())) == (again.kept, list(again.refused.items()))
        assert made.scores == again.scores
        assert list(made.plugin_scores) == list(again.plugin_scores)


def plain(inputs: DecisionInputs) -> dict[str, Any]:
    """Every field of the inputs as values that compare, with their order where sums depend on it."""
    return {field: COMPARED[field](getattr(inputs, field)) for field in DecisionInputs.__struct_fields__}


COMPARED: dict[str, Any] = {
    "snapshot": lambda snapshot: (
        list(snapshot.nodes.items()),
        {pod_type: list(by_node.items()) for pod_type, by_node in snapshot.rewards.items()},
    ),
    "policy": lambda policy: policy,
    "now": lambda now: now,
    "workloads": lambda workloads: (dict(workloads.by_name), workloads.read_at),
    "delay_views": lambda views: [(view.source, set(view.nodes), view.read_at, view.fresh_until) for view in views],
    "estimates": lambda estimates: estimates and estimates.made_at,
    "telemetry": lambda telemetry: (telemetry.policies, [_table(table) for table in telemetry.tables]),
    "node_roles": dict,
    "node_labels": lambda _: "for plugins, which are not asked again",
    "self_healing": lambda healing: healing,
    "last_round_trips": dict,
    "devices": lambda devices: (list(devices.nodes.items()), devices),
    "views": lambda _: "changes no answer",
    "checkpoint": lambda _: "ends no replay",
}


def _table(table: Any) -> Any:
    columns = getattr(table, "columns", None)
    if columns is None:
        return "of the agents"
    return {
        metric: (dict(each.values), each.read_at, each.oldest_read_at) for metric, each in columns.items()
    }, table.max_age_seconds


def test_a_heartbeat_writes_a_heartbeat_and_no_windows() -> None:
    [*_, inputs] = changing_inputs(random.Random(1), 3)
    encoder = RequestEncoder()
    encoder.begin()
    request = DecidedRequest("filter", random_pod(random.Random(1), 1), NODES, inputs, FilterResult(NODES, {}))
    list(encoder.encode(request))
    nodes = dict(inputs.snapshot.nodes)
    name, state = next(iter(nodes.items()))
    nodes[name] = structs.replace(state, heartbeat=Heartbeat(1, 7_777, 5.0))
    beaten = structs.replace(inputs, snapshot=structs.replace(inputs.snapshot, nodes=nodes))
    message, _ = encoder.encode(structs.replace(request, inputs=beaten))
    table, changed, *_ = msgspec.msgpack.decode(message)[1:]
    assert (table, list(changed), list(changed[name])) == ("snapshot.nodes", [name], ["heartbeat"])


def test_another_format_is_refused_by_its_number() -> None:
    block = msgspec.msgpack.encode([Head(FORMAT + 1, 1.0, 2.0, 0, [])])
    with pytest.raises(BadRecording, match=rf"format {FORMAT + 1}, and this leadsman reads format {FORMAT}"):
        list(RequestDecoder().decode(block))


@given(st.integers(0, 10**6), st.data())
def test_whatever_a_block_holds_it_is_read_or_refused(seed: int, data: st.DataObject) -> None:
    encoder = RequestEncoder()
    encoder.begin()
    request = next(decided_requests(random.Random(seed)))
    block = bytearray(encoder.block(list(encoder.encode(request)), 1.0, 2.0))
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(*UNREADABLE, BadRecording):
        list(RequestDecoder().decode(bytes(block)))


@given(st.integers(0, 10**6), st.integers(0, 20))
def test_a_lost_block_costs_its_requests_and_what_comes_back_is_what_was_decided(seed: int, lost: int) -> None:
    """Each request is a block; those behind the lost one come back, and differ at most in inputs that it changed."""
    requests, encoder, decoder = list(decided_requests(random.Random(seed))), RequestEncoder(), RequestDecoder()
    lost %= len(requests)
    encoder.begin()
    blocks = [encoder.block(list(encoder.encode(request)), 1.0, 2.0) for request in requests]
    read = [each.request for number, block in enumerate(blocks) if number != lost for each in decoder.decode(block)]
    wanted = [request for number, request in enumerate(requests) if number != lost]
    if lost:
        assert len(read) == len(wanted), decoder.why
    for one, other in zip(reversed(wanted), reversed(read), strict=False):
        assert (other.verb, other.pod.name) == (one.verb, one.pod.name)
        assert (other.nodes, other.answer) == (one.nodes, one.answer)


def test_names_that_a_lost_block_brought_are_in_the_next_one() -> None:
    request, encoder, decoder = next(decided_requests(random.Random(1))), RequestEncoder(), RequestDecoder()
    encoder.begin()
    encoder.block(list(encoder.encode(request)), 1.0, 2.0)
    (read,) = decoder.decode(encoder.block(list(encoder.encode(request)), 1.0, 2.0))
    assert read.request.nodes == request.nodes
