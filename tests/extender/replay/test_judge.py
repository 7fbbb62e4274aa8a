"""What another policy changes is told exactly where it changes it, and why."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from extender.replay.judge import Judge, Result, answer_again
from extender.replay.report import explain_pod
from leadsman.decision.decide import FilterResult, decide, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo, Refusal
from leadsman.decision.policy import Policy, parse
from leadsman.decision.self_healing import PROTECTED
from leadsman.sources.recording.messages import DecidedRequest
from leadsman.sources.recording.reader import RecordedRequest
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import Hardware, Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot
from tests.changing_inputs import NODES, changing_inputs, random_pod, random_policy


def scheduled(pod: PodInfo, nodes: CandidateNodes, inputs: DecisionInputs) -> Iterator[DecidedRequest]:
    """The calls that kube-scheduler makes for the pod: none to prioritize when one node passes, or none."""
    result = filter_nodes(pod, nodes, inputs)
    yield DecidedRequest("filter", pod, nodes, inputs, result)
    if len(result.kept) > 1:
        yield DecidedRequest("prioritize", pod, result.kept, inputs, score_nodes(pod, result.kept, inputs).scores)


def first_nodes(pod: PodInfo, nodes: CandidateNodes, inputs: DecisionInputs) -> set[str]:
    """Where the pod may go, by a whole decision."""
    scores = decide(pod, nodes, inputs).scores
    return {node for node, score in scores.items() if score == max(scores.values())}


@given(st.integers(0, 10**6))
def test_a_place_that_changes_is_told_and_no_other(seed: int) -> None:
    rng = random.Random(seed)
    other = random_policy(rng)
    judge = Judge(other)
    for number, inputs in enumerate(changing_inputs(rng, 8)):
        pod, nodes = random_pod(rng, number), CandidateNodes(rng.sample(NODES, 9))
        judgements = [judge.judge(each) for each in scheduled(pod, nodes, inputs)]
        before = first_nodes(pod, nodes, inputs)
        after = first_nodes(pod, nodes, structs.replace(inputs, policy=other))
        assert (before != after) == any(set(each.first_before) != set(each.first_after) for each in judgements)
        for each in judgements:
            if each.first_before or each.first_after:
                assert (set(each.first_before), set(each.first_after)) == (before, after)
                assert each.why or each.result is not Result.OTHER_NODE


@given(st.integers(0, 10**6))
def test_nodes_that_are_newly_refused_and_accepted_are_told_exactly(seed: int) -> None:
    rng = random.Random(seed)
    other = random_policy(rng)
    for number, inputs in enumerate(changing_inputs(rng, 8)):
        pod, nodes = random_pod(rng, number), CandidateNodes(NODES)
        judgement = Judge(other).judge(next(scheduled(pod, nodes, inputs)))
        before, after = (filter_nodes(pod, nodes, each) for each in (inputs, structs.replace(inputs, policy=other)))
        assert judgement.refused.keys() == set(before.kept) - set(after.kept)
        assert judgement.accepted.keys() == set(after.kept) - set(before.kept)


NEAR_AND_BUSY, FAR_AND_IDLE = "near-and-busy", "far-and-idle"


@pytest.fixture
def inputs() -> DecisionInputs:
    """From `here`, one node is 2 ms away and under pressure, another 18 ms and idle, and one 30 ms."""

    def node(pressure: float, **peers: float) -> NodeState:
        windows = {peer: PeerLatency(9, 9, p50_ms=ms, p95_ms=ms, min_ms=ms) for peer, ms in peers.items()}
        return NodeState(None, Heartbeat(1, 1, 5.0), Latency(windows), Hardware({CPU_PRESSURE: pressure}), 99.0)

    nodes = {
        "here": node(0.0, **{NEAR_AND_BUSY: 2.0, FAR_AND_IDLE: 18.0, "too-far": 30.0}),
        NEAR_AND_BUSY: node(0.9, here=2.0),
        FAR_AND_IDLE: node(0.0, here=18.0),
        "too-far": node(0.0, here=30.0),
    }
    return DecisionInputs(Snapshot(nodes), Policy(), 100.0)


POD = PodInfo("shop", "web", "uid", {"delay_here": "20"})
CANDIDATES = CandidateNodes([NEAR_AND_BUSY, FAR_AND_IDLE, "too-far"])


def test_a_node_that_is_newly_refused_comes_with_plugin_and_reason(inputs: DecisionInputs) -> None:
    window = PeerLatency(9, 9, p50_ms=2.0, p95_ms=25.0)
    here = structs.replace(inputs.snapshot.nodes["here"], latency=Latency(dict.fromkeys(CANDIDATES, window)))
    late = structs.replace(inputs, snapshot=Snapshot({**inputs.snapshot.nodes, "here": here}))
    filtered, prioritized = map(Judge(parse("delay: {statistic: p95}")).judge, scheduled(POD, CANDIDATES, late))
    assert filtered.result is Result.NEWLY_REFUSED
    assert filtered.refused[NEAR_AND_BUSY].startswith("delay: ")
    assert prioritized.result is Result.OTHER_NODE
    assert prioritized.first_after == ()
    assert prioritized.why.startswith("other nodes pass filter: ")


def test_behind_a_damaged_block_only_what_still_gives_its_own_answer_counts(inputs: DecisionInputs) -> None:
    sound = DecidedRequest("filter", POD, CANDIDATES, inputs, filter_nodes(POD, CANDIDATES, inputs))
    unsound = structs.replace(sound, answer=FilterResult((), {}))
    assert [Judge(Policy()).judge(each, is_whole=False).result for each in (sound, unsound)] == [
        Judge(Policy()).judge(sound).result,
        Result.UNDECIDED,
    ]


def test_preempt_keeps_what_it_kept(inputs: DecisionInputs) -> None:
    healing = structs.replace(inputs.self_healing, placeholders=frozenset(["held"]))
    held = structs.replace(inputs, self_healing=healing)
    request = DecidedRequest("preempt", POD, CANDIDATES, held, FilterResult((), {}), "", {NEAR_AND_BUSY: ["held"]})
    answer = answer_again(request)
    assert isinstance(answer, FilterResult)
    assert next(iter(answer.refused)) == NEAR_AND_BUSY
    assert Judge().judge(structs.replace(request, answer=answer)).result is Result.AGREE


@pytest.mark.parametrize(
    ("uid", "later", "refusal"),
    [("another", 0, Refusal("x", "no")), ("uid", 300, Refusal("x", "no")), ("uid", 0, PROTECTED)],
)
def test_a_preemption_is_explained_unless_its_own_attempt_was_filtered(
    inputs: DecisionInputs, uid: str, later: float, refusal: Refusal
) -> None:
    """What was answered before is another pod's of the name, or of another attempt; or it says nothing of victims."""
    filtered = DecidedRequest("filter", POD, CANDIDATES, inputs, FilterResult(CANDIDATES, {}))
    refused = FilterResult((), dict.fromkeys(CANDIDATES, refusal))
    then = structs.replace(inputs, now=inputs.now + later)
    preempted = DecidedRequest("preempt", structs.replace(POD, uid=uid), CANDIDATES, then, refused)
    recorded = [RecordedRequest(filtered, 0.0), RecordedRequest(preempted, later)]
    explained = " ".join(explain_pod(recorded, "shop/web", None, False).split())
    assert f"none of 3 nodes passes: 3 {refusal.reason}" in explained


@pytest.mark.parametrize(("later", "scored"), [(0, [NEAR_AND_BUSY, FAR_AND_IDLE]), (300, [NEAR_AND_BUSY])])
def test_a_node_that_is_newly_accepted_is_scored_in_the_same_attempt_alone(
    inputs: DecisionInputs, later: float, scored: list[str]
) -> None:
    """The filter call of the next attempt went to another replica."""
    pod, nodes = PodInfo("shop", "web", "uid"), CandidateNodes([NEAR_AND_BUSY, FAR_AND_IDLE])
    then, judge = structs.replace(inputs, now=inputs.now + later), Judge(Policy())
    refused = FilterResult(nodes[:1], {FAR_AND_IDLE: Refusal("x", "no")})
    judge.judge(DecidedRequest("filter", pod, nodes, inputs, refused))
    asked = DecidedRequest("prioritize", pod, CandidateNodes(nodes[:1]), then, {NEAR_AND_BUSY: 5})
    assert list(judge._candidates(asked)) == scored
