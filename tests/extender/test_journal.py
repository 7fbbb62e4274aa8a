import random
import tracemalloc

import pytest
from msgspec import structs

from extender.journal import CANDIDATE_BYTES, NODE_STATE_BYTES, TABLE_SLOT_BYTES, Journal
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


def test_filter_and_prioritize_of_a_pod_are_one_decision(journal) -> None:
    journal.record_filter(pod(), NODES, JUDGED, facts(1.0))
    journal.record_prioritize(pod(), ("a",), RANKED, facts(2.0))
    entry = journal.get("ns", "p")
    assert (entry.decision.kept, entry.decision.refused, entry.decision.scores) == (("a",), JUDGED.refused, {"a": 7})
    assert (entry.decided_at, entry.filter_inputs.now, entry.score_inputs.now) == (2.0, 1.0, 2.0)


def test_a_pod_that_was_not_ranked_is_kept_too(journal) -> None:
    """With one node left kube-scheduler does not ask for scores."""
    journal.record_filter(pod(), NODES, JUDGED, facts())
    assert journal.get("ns", "p").decision.scores == {}


def test_a_new_filter_call_begins_a_new_decision(journal) -> None:
    journal.record_filter(pod(), NODES, JUDGED, facts(1.0))
    journal.record_prioritize(pod(), ("a",), RANKED, facts(2.0))
    journal.record_filter(pod(), NODES, JUDGED, facts(3.0))
    assert (len(journal), journal.get("ns", "p").score_result) == (1, None)


def test_scores_never_join_the_decision_on_another_pod_of_that_name(journal) -> None:
    journal.record_filter(pod(uid="old"), NODES, JUDGED, facts())
    journal.record_prioritize(pod(uid="new"), ("a",), RANKED, facts())
    assert journal.get("ns", "p").filter_result is None


def test_the_newest_come_first_and_the_oldest_go(journal) -> None:
    for name in "abcd":
        journal.record_filter(pod(name), NODES, JUDGED, facts())
    assert [entry.pod.name for entry in journal.newest(9)] == ["d", "c", "b"]
    assert journal.get("ns", "a") is None


def test_a_pod_decided_again_is_new_again(journal) -> None:
    for name in "abca":
        journal.record_filter(pod(name), NODES, JUDGED, facts())
    assert [entry.pod.name for entry in journal.newest(2)] == ["a", "c"]


def test_the_nodes_held_in_memory_are_bounded(journal) -> None:
    """Those of the newest snapshot, which the process has anyway, and 100 more."""
    for name in "abc":
        journal.record_filter(pod(name), NODES, JUDGED, facts(nodes=70))
    assert (len(journal), journal.held_nodes) == (2, 144)


def test_a_snapshot_that_several_decisions_share_counts_once(journal) -> None:
    shared = facts(nodes=40)
    for name in "abc":
        journal.record_filter(pod(name), NODES, JUDGED, shared)
    assert (len(journal), journal.held_nodes) == (3, 46)


def later(before, *changed):
    """The facts a moment later, when these nodes have reported."""
    states = before.snapshot.nodes
    moved = states | {node: structs.replace(states.get(node, NodeState())) for node in changed}
    return structs.replace(before, snapshot=Snapshot(moved))


def test_states_that_snapshots_share_count_once(journal) -> None:
    first = facts(nodes=40)
    second = later(first, "n3", "n9")
    journal.record_filter(pod("a"), NODES, JUDGED, first)
    journal.record_filter(pod("b"), NODES, JUDGED, second)
    journal.record_filter(pod("c"), NODES, JUDGED, later(second, "n3"))
    assert journal.held_nodes == 3 * 2 + 40 + 2 + 1
    assert journal.held_bytes == 6 * CANDIDATE_BYTES + 3 * NODE_STATE_BYTES + 120 * TABLE_SLOT_BYTES


def test_a_snapshot_given_up_leaves_what_its_successor_shares(journal) -> None:
    first = facts(nodes=40)
    second = later(first, "n3", "n9")
    for name, on in (("a", first), ("b", second), ("c", later(second, "n3"))):
        journal.record_filter(pod(name), NODES, JUDGED, on)
    journal.record_filter(pod("b"), NODES, JUDGED, facts())
    assert journal.held_nodes == 3 * 2 + 40 + 3
    journal.record_filter(pod("a"), NODES, JUDGED, facts())
    assert journal.held_nodes == 3 * 2 + 40


def test_no_state_that_is_held_goes_uncounted(journal) -> None:
    """Whatever comes, goes or changes between decisions, and whichever pods are decided again."""
    rng, now = random.Random(1), facts(nodes=20)
    for _ in range(300):
        now = later(now, *rng.choices([f"n{number}" for number in range(25)], k=rng.randrange(5)))
        now = structs.replace(now, snapshot=Snapshot(dict(rng.sample(sorted(now.snapshot.nodes.items()), k=20))))
        journal.record_filter(pod(rng.choice("abcde")), (), JUDGED, now)
        kept = [entry.filter_inputs.snapshot.nodes for entry in journal.newest(9)]
        distinct = {id(state) for nodes in kept for state in nodes.values()}
        assert len(distinct) <= journal.held_nodes <= sum(map(len, kept))


def report(windows):
    """One as it is read from the store."""
    measured = PeerLatency(30, 30, 9.125, 18.25, 4.5, 1.25, 0.75)
    encoded = encode_record(Latency({f"node-{number:04}": measured for number in range(windows)}))
    return NodeState(Identity("pod", 1, "10.0.0.1"), Heartbeat(1, 1_000, 25.0), decode_record(Latency, encoded))


@pytest.mark.parametrize("windows", [0, 8, 16, 24])
def test_what_a_node_counts_is_what_its_records_take(windows) -> None:
    """With 7 hardware metrics, of which these have none: they take 900 bytes, as measured."""
    journal, count = Journal(), 200
    tracemalloc.start()
    states = [report(windows) for _ in range(count)]
    taken = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    journal.record_filter(
        pod("a"),
        (),
        JUDGED,
        DecisionInputs(Snapshot({f"n{at}": state for at, state in enumerate(states)}), Policy(), 0.0),
    )
    journal.record_filter(pod("b"), (), JUDGED, facts())
    counted = journal.held_bytes / count - TABLE_SLOT_BYTES
    assert taken < counted < 1.1 * taken + 1_400


def test_25_decisions_on_5000_nodes_are_kept_while_200_nodes_report_a_second() -> None:
    """Two pods a second, and 16 windows a node; the bound is that of a running extender."""
    journal, rng = Journal(), random.Random(1)
    now = DecisionInputs(Snapshot({f"n{number}": report(16) for number in range(5_000)}), Policy(), 0.0)
    names = tuple(now.snapshot.nodes)
    for number in range(40):
        now = later(now, *rng.sample(names, 100))
        journal.record_filter(pod(f"p{number}"), names, FilterResult(names, {}), now)
    assert len(journal) >= 25


def test_labels_and_annotations_of_pods_count_and_push_out_the_oldest() -> None:
    journal, labels = Journal(max_bytes=100_000), {f"delay_n{number}": "25" for number in range(100)}
    for number in range(30):
        journal.record_filter(structs.replace(pod(f"p{number}"), labels=labels), NODES, JUDGED, facts())
    assert 2 <= len(journal) <= 4
    assert journal.held_bytes <= 100_000


def test_a_decision_larger_than_the_bound_is_kept_alone(journal) -> None:
    journal.record_filter(pod("small"), NODES, JUDGED, facts())
    journal.record_filter(pod("large"), ("a",) * 2_000, JUDGED, facts(nodes=400))
    assert [entry.pod.name for entry in journal.newest(9)] == ["large"]


def test_what_is_forgotten_is_not_counted(journal) -> None:
    for number in range(50):
        journal.record_filter(pod(f"p{number % 5}"), NODES, JUDGED, facts(nodes=number % 30))
        journal.record_prioritize(pod(f"p{number % 5}"), NODES, RANKED, facts(nodes=number % 7))
    kept = journal.newest(9)
    held = sum(len(entry.nodes) + sum(len(each.snapshot.nodes) for each in entry.inputs) for entry in kept)
    assert journal.held_nodes == held
