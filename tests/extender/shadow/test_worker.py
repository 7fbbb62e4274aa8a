"""The shadow process judges what it is fed as `leadsman replay` does."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.replay.judge import Judge
from extender.replay.report import CHANGED, describe
from extender.shadow.frames import MAX_CHANGES, FrameReader, messages_frame, policy_frame, read_tally, tally_line
from extender.shadow.worker import ShadowWorker
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.model import CandidateNodes
from leadsman.decision.policy import digest, parse
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.encoder import RequestEncoder
from leadsman.sources.recording.messages import join
from tests.changing_inputs import NODES, changing_inputs, random_pod

OTHER = parse("scores: {nearest: {weight: 0}, pressure: {weight: 50}}")


def decided(seed: int, steps: int = 10) -> list[DecidedRequest]:
    rng, requests = random.Random(seed), list[DecidedRequest]()
    for number, inputs in enumerate(changing_inputs(rng, steps)):
        pod = random_pod(rng, number)
        result = filter_nodes(pod, CandidateNodes(NODES), inputs)
        scores = score_nodes(pod, result.kept, inputs).scores
        requests.append(DecidedRequest("filter", pod, CandidateNodes(NODES), inputs, result))
        requests.append(DecidedRequest("prioritize", pod, result.kept, inputs, scores))
    return requests


def frames(requests: list[DecidedRequest]) -> bytes:
    encoder = RequestEncoder()
    begin = [encoder.begin("0", 1.0, 2.0)]
    blocks = [join([*(begin if not at else []), *encoder.encode(each)]) for at, each in enumerate(requests)]
    return b"".join(map(messages_frame, blocks))


@given(st.lists(st.binary(max_size=40)), st.randoms())
def test_frames_come_back_however_they_are_cut(contents: list[bytes], rng) -> None:
    stream, reader, read = b"".join(map(messages_frame, contents)), FrameReader(), list[tuple[bytes, bytes]]()
    while stream:
        cut = rng.randrange(1, 30)
        read += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert read == [(b"M", content) for content in contents]


def test_it_says_what_replay_says() -> None:
    requests, judge, worker = decided(1, steps=40), Judge(OTHER), ShadowWorker()
    worker.feed(policy_frame(OTHER) + frames(requests))
    tally = read_tally(tally_line(worker.take_tally()))
    judgements = [judge.judge(each) for each in requests]
    expected = Counter((each.verb, each.result.value) for each in judgements)
    assert {(verb, result): n for verb, by in tally.results.items() for result, n in by.items()} == expected
    assert expected["prioritize", "other_node"] > 0
    described = [describe(each) for each in judgements if each.result in CHANGED]
    assert [(change.change, change.why) for change in tally.changes] == described[:MAX_CHANGES]
    assert all(change and why for change, why in described)
    assert tally.policy == digest(OTHER)


def test_a_tally_names_the_policy_that_it_was_judged_by() -> None:
    requests, worker = decided(1), ShadowWorker()
    stream = frames(requests)
    worker.feed(policy_frame(requests[0].inputs.policy) + stream[: len(stream) // 2])
    worker.feed(stream[len(stream) // 2 :])
    assert worker.take_tally().policy == digest(requests[0].inputs.policy)
    worker.feed(policy_frame(OTHER))
    assert worker.take_tally().policy == digest(OTHER)


def test_a_tally_names_a_few_changes_and_counts_all() -> None:
    worker = ShadowWorker()
    worker.feed(policy_frame(OTHER) + frames(decided(1, steps=100)))
    tally = worker.take_tally()
    assert len(tally.changes) == MAX_CHANGES < tally.results["prioritize"]["other_node"]
    assert not worker.has_news
