"""What holds for every decision, whatever is asked and whatever is known."""

import gc
import random
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import NEUTRAL_SCORE, decide, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.policy import DelayPolicy, EstimateMode, NearestPolicy, Policy, PressurePolicy, ScoresPolicy
from leadsman.decision.view import MAX_VIEWS, View, Views
from leadsman.state import keys
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Latency, PeerLatency, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import apply_changes
from leadsman.state.store import Deleted, Updated
from tests.leadsman.decision import make

NAMES = [f"n-{number}" for number in range(8)]
FRESHNESS = ["fresh", "fresh", "fresh", "stale", "provisional", "silent"]
LABELS = st.dictionaries(
    st.sampled_from(["delay_n-0", "delay_n-1", "delay_gone", "delay_", "app"]),
    st.sampled_from(["0", "5", "2.5", "100", "-1", "abc"]),
    max_size=2,
)


class Says:
    """A score that says what it is told to."""

    name = "says"

    def __init__(self, weight: float = 1.0, **values: float) -> None:
        self.weight, self.values = weight, values

    def score(self, pod: PodInfo, nodes: Any, facts: DecisionInputs) -> PluginScore:
        return PluginScore("says", self.weight, self.values)

    def evidence(self, pod: PodInfo, nodes: Any, facts: DecisionInputs) -> Evidence:
        return Evidence()


class Refuses(Says):
    """A filter that refuses the nodes it is told to; its weight stands in the reason."""

    def refusals(self, pod: PodInfo, nodes: Any, facts: DecisionInputs) -> dict[str, Refusal]:
        return {node: Refusal("refuses", f"told by {self.weight}") for node in nodes if node in self.values}


def cluster(seed: int, estimate: EstimateMode = EstimateMode.UPPER_BOUND) -> DecisionInputs:
    rng = random.Random(seed)
    states = {
        name: make.state(
            {peer: rng.choice([0.0, 1.0, 5.0, 50.0, None]) for peer in rng.sample(NAMES, 5)},
            {CPU_PRESSURE: rng.random()} if rng.random() < 0.8 else {},
            rng.choice(FRESHNESS),
        )
        for name in rng.sample(NAMES, 7)
    }
    return make.facts(states, Policy(delay=DelayPolicy(estimate=estimate)))


@given(LABELS, st.lists(st.sampled_from([*NAMES, "unheard-of"])), st.integers(0, 500), st.sampled_from(EstimateMode))
def test_every_node_is_kept_and_scored_or_refused_with_a_reason(
    labels: dict[str, str], asked: list[str], seed: int, estimate: EstimateMode
) -> None:
    decision = decide(make.pod(**labels), asked, cluster(seed, estimate))
    assert sorted([*decision.kept, *decision.refused]) == sorted(set(asked))
    assert list(decision.kept) == [node for node in dict.fromkeys(asked) if node in decision.kept]
    assert all(refusal.reason and refusal.plugin for refusal in decision.refused.values())
    assert list(decision.scores) == list(decision.kept)
    assert all(type(score) is int and 0 <= score <= 10 for score in decision.scores.values())
    assert not decision.neutral or len(set(decision.scores.values())) <= 1


@given(LABELS, st.permutations(NAMES), st.integers(0, 500))
def test_the_order_asked_changes_nothing(labels: dict[str, str], order: list[str], seed: int) -> None:
    facts = cluster(seed)
    one, other = decide(make.pod(**labels), NAMES, facts), decide(make.pod(**labels), order, facts)
    assert (one.refused, one.scores, one.neutral) == (other.refused, other.scores, other.neutral)


def test_a_changed_weight_flips_a_tie() -> None:
    """near is nearer, calm is calmer, each by the same: 0.8 and 0.2."""
    states = {"ref": make.state({"near": 5.0, "calm": 20.0, "mid": 10.0})}
    pressures = {"near": 0.8**0.5, "calm": 0.2**0.5, "mid": 0.5**0.5}
    states |= {node: make.state({}, {CPU_PRESSURE: ratio}) for node, ratio in pressures.items()}

    def scored(nearest: float, pressure: float) -> tuple[int, int]:
        policy = Policy(
            scores=ScoresPolicy(nearest=NearestPolicy(weight=nearest), pressure=PressurePolicy(weight=pressure))
        )
        scores = decide(make.pod(delay_ref="25"), list(pressures), make.facts(make.confirmed(states), policy)).scores
        return scores["near"], scores["calm"]

    assert scored(1, 1) == (5, 5)
    assert scored(2, 1) == (6, 4)
    assert scored(1, 2) == (4, 6)
    assert scored(0, 1) == (2, 8)


@pytest.mark.parametrize(("fresh", "speaks"), [(4, True), (3, True), (2, True), (1, False), (0, False)])
def test_fewer_than_half_of_four_fresh_is_neutral(fresh: int, speaks: bool) -> None:
    kinds = ["fresh"] * fresh + ["stale"] * (4 - fresh)
    states = {f"n-{n}": make.state({}, {CPU_PRESSURE: n / 4}, kind) for n, kind in enumerate(kinds)}
    ranked = score_nodes(make.pod(), list(states), make.facts(states))
    assert (ranked.neutral == "") is speaks
    if not speaks:
        assert ranked.scores == dict.fromkeys(states, NEUTRAL_SCORE)
        assert ranked.neutral == f"pressure: only {fresh} of 4 nodes have fresh data; at least half are needed"


@pytest.mark.parametrize("poison", [1e300, float("inf")])
def test_no_value_of_a_score_leaves_0_and_10(poison: float) -> None:
    says = Says(a=poison, b=-poison, c=0.5)
    assert score_nodes(make.pod(), "abc", make.facts({}), [says]).scores == {"a": 10, "b": 0, "c": 5}


def test_a_later_filter_is_asked_about_what_is_left() -> None:
    judged = filter_nodes(make.pod(), "aabbc", make.facts({}), [Refuses(1, a=1), Refuses(2, a=1, b=1)])
    assert judged.kept == ("c",)
    assert {node: refusal.reason for node, refusal in judged.refused.items()} == {"a": "told by 1", "b": "told by 2"}


def test_a_reason_has_no_control_character() -> None:
    assert Refusal("any", "a \x1b[31m\nb").reason == "a \\x1b[31m\\nb"


# Decisions on one snapshot after another, with what the views before left, are those of a new view.

NODES = CandidateNodes.of(("a", "b", "c", "d", "e"))
POD = PodInfo("default", "p", labels={"delay_a": "20", "delay_b": "50"})
NOW = 100.0

nodes = st.sampled_from(NODES)
windows = st.floats(1, 90).map(lambda ms: PeerLatency(30, 30, ms, ms, ms))
records: st.SearchStrategy[AnyRecord] = st.one_of(
    st.builds(Heartbeat, st.just(1), st.integers(0, 99), st.sampled_from([5.0, 60.0])),
    st.dictionaries(nodes, windows, min_size=1).map(Latency),
    st.floats(0, 1).map(lambda share: Hardware({CPU_PRESSURE: share})),
)
reports = st.tuples(nodes, records, st.booleans())


@given(st.lists(st.tuples(st.lists(reports, max_size=6), st.floats(0, 8), st.integers(0, 2)), max_size=12))
def test_decisions_while_nodes_report_are_those_made_from_the_start(
    batches: list[tuple[list[tuple[str, AnyRecord, bool]], float, int]],
) -> None:
    views, now, snapshots = Views(), NOW, [Snapshot()]
    for batch, seconds, steps_back in batches:
        now += seconds
        newest = snapshots[-1]
        for node, record, gone in batch:
            key, revision = keys.record_key(node, type(record)), newest.revision + 1
            change = Deleted(key, revision) if gone else Updated(key, encode_record(record), revision)
            newest = apply_changes(newest, [change], now)
        snapshots.append(newest)
        kept = DecisionInputs(snapshots[-1 - min(steps_back, len(snapshots) - 1)], Policy(), now, views)
        assert decide(POD, NODES, kept) == decide(POD, NODES, structs.replace(kept, views=Views()))


def test_a_view_that_no_decision_needs_any_more_is_gone_without_a_collection_of_garbage() -> None:
    """A view of 5,000 nodes has half a megabyte, and such a collection comes after dozens of pods."""
    views, left = Views(), list[weakref.ref[View]]()
    gc.disable()
    try:
        for turn in range(9):
            facts = make.facts({"a": make.state({"n": 1.0})}, now=NOW + turn / 100, views=views)
            filter_nodes(make.pod(delay_a="5"), ["n", "m"], facts)
            left.append(weakref.ref(facts.view()))
            del facts
        assert [view() is not None for view in left] == [*[False] * (9 - MAX_VIEWS), *[True] * MAX_VIEWS]
    finally:
        gc.enable()


def test_delay_0_means_the_reference_itself_and_pairs_at_0_ms() -> None:
    """kubernetes-edge-scheduler took 0 for no constraint and returned all nodes."""
    facts = make.facts({"ref": make.state({"twin": 0.0, "near": 0.001, "far": 9.0})})
    assert filter_nodes(make.pod(delay_ref="0"), ["ref", "twin", "near", "far"], facts).kept == ("ref", "twin")
