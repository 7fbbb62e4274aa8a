"""The journal: one decision a pod, the oldest go, and what it holds in memory is counted and bounded."""

import random
import tracemalloc

import pytest
from msgspec import structs

from extender.journal import FORGET_SECONDS, NODE_STATE_BYTES, TABLE_SLOT_BYTES, Journal, RefusedPod
from leadsman.decision.decide import FilterResult, ScoreResult
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.decision.policy import Policy
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency, decode_record, encode_record
from leadsman.state.snapshot import NodeState, Snapshot

JUDGED = FilterResult(("a",), {"b": Refusal("delay", "too far")})
RANKED = ScoreResult((), {"a": 7}, "")
NODES = ("a", "b")


def pod(name="p", uid="u"):
    return PodInfo("ns", name, uid)


def facts(now=0.0, nodes=0):
    return DecisionInputs(Snapshot({f"n{number}": NodeState() for number in range(nodes)}), Policy(), now)


@pytest.fixture
def journal():
    return Journal(max_pods=3, max_bytes=100 * NODE_STATE_BYTES)


def test_filter_and_prioritize_of_a_pod_are_one_decision_until_it_is_filtered_again(journal):
    journal.record_filter(pod(), NODES, JUDGED, facts(1.0))
    assert journal.get("ns", "p").decision.scores == {}, "with one node left kube-scheduler does not ask for scores"
    journal.record_prioritize(pod(), ("a",), RANKED, facts(2.0))
    entry = journal.get("ns", "p")
    assert (entry.decision.kept, entry.decision.refused, entry.decision.scores) == (("a",), JUDGED.refused, {"a": 7})
    assert (entry.decided_at, entry.filter_inputs.now, entry.score_inputs.now) == (2.0, 1.0, 2.0)
    journal.record_filter(pod(), NODES, JUDGED, facts(3.0))
    assert (len(journal), journal.get("ns", "p").score_result) == (1, None)


def test_scores_after_an_attempt_elsewhere_are_no_part_of_an_old_refusal(journal):
    journal.record_filter(pod(), NODES, FilterResult((), {}), facts(0.0))
    journal.record_prioritize(pod(), NODES, RANKED, facts(300.0))
    assert journal.get("ns", "p").decision.kept == NODES


def test_the_newest_come_first_and_the_oldest_go_and_a_pod_decided_again_is_new_again(journal):
    for name in "abcdb":
        journal.record_filter(pod(name), NODES, JUDGED, facts())
    assert [entry.pod.name for entry in journal.newest(9)] == ["b", "d", "c"]
    assert journal.get("ns", "a") is None


def test_a_pod_waits_since_its_first_attempt_that_no_node_passed_in_a_row(journal):
    bounded = structs.replace(pod(), labels={"delay_a": "1"})
    for kept, at in ((), 10.0), ((), 50.0):
        journal.record_filter(bounded, NODES, FilterResult(kept, {}), facts(at))
    journal.record_filter(pod("free", "f"), NODES, FilterResult((), {}), facts(50.0))
    assert journal.waiting(51.0) == [RefusedPod("ns", "p", pod().uid, 10.0, 50.0)]
    assert journal.waiting(50.0 + FORGET_SECONDS) == []
    journal.record_filter(bounded, NODES, FilterResult(("a",), {}), facts(60.0))
    assert journal.waiting(61.0) == []


def test_no_state_that_is_held_goes_uncounted():
    """Whatever comes, goes or changes between decisions, and whichever pods are decided again. The newest snapshot's
    states are in memory anyway."""
    journal, rng, now = Journal(max_pods=5, max_bytes=1 << 40), random.Random(1), facts(nodes=20)
    for _ in range(300):
        states = now.snapshot.nodes
        reported = rng.choices([f"n{number}" for number in range(25)], k=rng.randrange(5))
        states = states | {node: structs.replace(states.get(node, NodeState())) for node in reported}
        now = structs.replace(now, snapshot=Snapshot(dict(rng.sample(sorted(states.items()), k=20))))
        journal.record_filter(pod(rng.choice("abcdefg")), (), JUDGED, now)
        newest, *kept = (entry.filter_inputs.snapshot.nodes for entry in journal.newest(9))
        older = {id(state) for nodes in kept for state in nodes.values()} - {id(state) for state in newest.values()}
        counted = (journal.held_bytes - TABLE_SLOT_BYTES * 20 * (1 + len(kept))) / NODE_STATE_BYTES
        assert len(older) <= counted <= sum(map(len, kept))


def report(windows):
    """One as it is read from the store."""
    measured = PeerLatency(30, 30, 9.125, 18.25, 4.5, 1.25, 0.75)
    encoded = encode_record(Latency({f"node-{number:04}": measured for number in range(windows)}))
    return NodeState(Identity("pod", 1, "10.0.0.1"), Heartbeat(1, 1_000, 25.0), decode_record(Latency, encoded))


@pytest.mark.parametrize("windows", [0, 24])
def test_what_a_node_counts_is_what_its_records_take(windows):
    """With 7 hardware metrics, of which these have none: they take 900 bytes, as measured."""
    journal, count = Journal(), 200
    tracemalloc.start()
    states = {f"n{at}": report(windows) for at in range(count)}
    taken = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    journal.record_filter(pod("a"), (), JUDGED, DecisionInputs(Snapshot(states), Policy(), 0.0))
    journal.record_filter(pod("b"), (), JUDGED, facts())
    counted = journal.held_bytes / count - TABLE_SLOT_BYTES
    assert taken < counted < 1.1 * taken + 1_400


def test_labels_and_annotations_of_pods_count_and_push_out_the_oldest():
    journal, labels = Journal(max_bytes=100_000), {f"delay_n{number}": "25" for number in range(100)}
    for number in range(30):
        journal.record_filter(structs.replace(pod(f"p{number}"), labels=labels), NODES, JUDGED, facts())
    assert 2 <= len(journal) <= 4
    assert journal.held_bytes <= 100_000
