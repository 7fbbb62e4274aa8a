"""Filter, nearest score, probe pairs and explanation say the same of every pair, and what a slow reading of the records
says.

The slow reading below knows nothing of arrays, indexes or caches: it looks at one pair of nodes after the other.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.delay.bounds import ReplicaMode
from leadsman.decision.delay.delay_plugins import NearestScore
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.delay.rtt_table import Outcome, reason
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy, Statistic
from leadsman.decision.view import Views
from leadsman.kube.names import DELAY_ANNOTATION
from leadsman.state.records import Latency
from leadsman.state.snapshot import Freshness, NodeState, Snapshot
from tests.leadsman.decision import make
from tests.leadsman.decision.make import Listed

WEB, BOUND_MS = "deployment/web", 5.0
RTTS_MS = [2.0, 5.0, 5.001, 9.0]
NAMES = ["n-0", "n-1", "n-2", "n-3", "n-4"]
"""n-0, n-1 and n-2 are those that a bound may be to; the last may be in no record, no view and no estimate."""


UNKNOWN_MS = math.inf


class Pair(NamedTuple):
    """What is to be said of one pair. rtt_ms: UNKNOWN_MS where there is none. source: who measured or estimated it."""

    outcome: Outcome
    rtt_ms: float = UNKNOWN_MS
    low_ms: float | None = None
    high_ms: float | None = None
    source: str = ""
    reporter: str = ""
    age_seconds: float | None = None
    why: Outcome | None = None
    reference: str = ""
    lone: bool = False

    @property
    def badness(self) -> tuple[int, float]:
        return self.outcome, self.rtt_ms


def is_live(node: str, inputs: DecisionInputs) -> bool:
    state = inputs.snapshot.nodes.get(node, NodeState())
    listed = any(node in view.nodes for view in inputs.delay_views if inputs.now < view.fresh_until)
    return listed or state.freshness(inputs.now) is Freshness.FRESH


def read_pair(reference: str, node: str, mode: EstimateMode, inputs: DecisionInputs) -> Pair:
    if reference == node:
        return Pair(Outcome.PASSES, 0.0, reference=reference)
    measured, why = agents_pair(reference, node, inputs)
    for view in inputs.delay_views:
        if inputs.now >= view.fresh_until:
            continue
        by_view, lost = view_pair(view, reference, node, inputs)
        if measured is None and why is not Outcome.NO_REPLY:
            measured, why = by_view, Outcome.NO_REPLY if by_view is None and lost else why
        elif measured is not None and by_view is not None:
            measured = measured._replace(lone=False)
    if measured is not None:
        outcome = Outcome.PASSES if measured.rtt_ms <= BOUND_MS else Outcome.MEASURED_OVER
        return measured._replace(outcome=outcome, reference=reference)
    return estimated_pair(reference, node, why, mode, inputs)._replace(why=why, reference=reference)


def agents_pair(reference: str, node: str, inputs: DecisionInputs) -> tuple[Pair | None, Outcome]:
    best, why, lone = None, Outcome.UNMEASURED, True
    for reporter, peer in ((reference, node), (node, reference)):
        state = inputs.snapshot.nodes.get(reporter, NodeState())
        window = state.latency.peers.get(peer) if state.latency else None
        rtt_ms = None if window is None else getattr(window, f"{inputs.policy.delay.statistic}_ms")
        if window is None or (window.received and rtt_ms is None):
            continue
        freshness = state.freshness(inputs.now)
        if freshness is not Freshness.FRESH:
            why = max(why, Outcome.PROVISIONAL if freshness is Freshness.PROVISIONAL else Outcome.STALE)
        elif rtt_ms is None:
            why = max(why, Outcome.NO_REPLY)
        elif best is not None and rtt_ms <= best.rtt_ms:
            lone = False
        else:
            lone = lone and best is None
            age = state.age_seconds(inputs.now)
            low_ms = rtt_ms if window.min_ms is None else window.min_ms
            best = Pair(Outcome.PASSES, rtt_ms, low_ms, window.p95_ms, "agents", reporter, age)
    return (None if why is Outcome.NO_REPLY or best is None else best._replace(lone=lone)), why


def view_pair(view: Any, reference: str, node: str, inputs: DecisionInputs) -> tuple[Pair | None, bool]:
    age = None if view.read_at is None else inputs.now - view.read_at
    best, both = None, ((reference, node), (node, reference))
    for reporter, peer in both:
        ms = view.pairs.get((reporter, peer))
        if ms is not None and (best is None or ms > best.rtt_ms):
            best = Pair(Outcome.PASSES, ms, ms, ms, view.source, reporter, age)
    lost = any(pair in view.pairs and view.pairs[pair] is None for pair in both)
    return (None if lost else best), lost


def estimated_pair(reference: str, node: str, why: Outcome, mode: EstimateMode, inputs: DecisionInputs) -> Pair:
    estimates: Any = inputs.estimates
    span = None if estimates is None else estimates.table.get((reference, node))
    unsettled = Outcome.ACCEPTED_UNKNOWN if mode is EstimateMode.ACCEPT and why is not Outcome.NO_REPLY else why
    if span is None or why is Outcome.NO_REPLY:
        return Pair(unsettled)
    low_ms, rtt_ms, high_ms = span
    age = inputs.now - estimates.made_at
    shown = Pair(unsettled, rtt_ms, low_ms, high_ms, "coordinates", age_seconds=age)
    over = Outcome.ESTIMATE_OVER if low_ms > BOUND_MS else Outcome.ESTIMATE_UNSURE
    if mode is EstimateMode.ACCEPT:
        return shown._replace(outcome=Outcome.PASSES if rtt_ms <= BOUND_MS else over)
    if mode is EstimateMode.REJECT or not (is_live(reference, inputs) and is_live(node, inputs)):
        return shown
    if high_ms <= BOUND_MS:
        return shown._replace(outcome=Outcome.PASSES)
    return shown._replace(outcome=over) if why is Outcome.UNMEASURED else shown


def read_deciding(
    references: Sequence[str], node: str, replicas: ReplicaMode, mode: EstimateMode, inputs: DecisionInputs
) -> Pair:
    pairs = [read_pair(reference, node, mode, inputs) for reference in references]
    return (max if replicas is ReplicaMode.ALL else min)(pairs, key=lambda pair: pair.badness)


def read_probes(
    references: Sequence[str], replicas: ReplicaMode, mode: EstimateMode, inputs: DecisionInputs
) -> list[tuple[str, str]]:
    """Node and reference, the nearest first."""
    open_outcomes = (Outcome.PASSES, Outcome.ACCEPTED_UNKNOWN, Outcome.UNMEASURED, Outcome.ESTIMATE_UNSURE)
    found = []
    for node in filter(lambda node: is_live(node, inputs), NAMES):
        if read_deciding(references, node, replicas, mode, inputs).outcome not in open_outcomes:
            continue
        for reference in filter(lambda reference: is_live(reference, inputs), references):
            pair = read_pair(reference, node, mode, inputs)
            if pair.why is Outcome.UNMEASURED and not (pair.low_ms or 0.0) > BOUND_MS:
                found.append((pair.rtt_ms, node, reference))
    return [(node, reference) for _, node, reference in sorted(found)]


# --- Small random inputs ----------------------------------------------------------------------------------------------

PAIRS = [(one, other) for one in NAMES for other in NAMES if one != other]
MS = st.sampled_from(RTTS_MS)
SPANS = st.sampled_from(list(itertools.combinations_with_replacement(sorted(RTTS_MS), 3)))
KINDS = st.sampled_from(["fresh", "fresh", "fresh", "stale", "provisional", "silent", "absent"])
VIEWS = st.dictionaries(st.sampled_from(PAIRS), st.none() | MS, max_size=8)


class Case(NamedTuple):
    references: Sequence[str]
    replicas: ReplicaMode
    mode: EstimateMode
    pod: PodInfo
    inputs: DecisionInputs


@pytest.fixture(scope="module")
def cache() -> Views:
    """One for all cases: what was computed for one must never answer for another."""
    return Views()


@st.composite
def cases(draw: st.DrawFn, cache: Views) -> Case:
    references = draw(st.lists(st.sampled_from(NAMES[:3]), min_size=1, max_size=3, unique=True).map(sorted))
    replicas, mode = draw(st.sampled_from(ReplicaMode)), draw(st.sampled_from(EstimateMode))
    states = {}
    for name in NAMES[:4]:
        kind = draw(KINDS)
        if kind != "absent":
            states[name] = draw(windows(name, kind))
    views = tuple(
        Listed(f"view-{number}", pairs, draw(st.none() | st.just(90.0)), make.NOW + draw(st.sampled_from([-1.0, 1.0])))
        for number, pairs in enumerate(draw(st.lists(VIEWS, max_size=2)))
    )
    spans = draw(st.none() | st.dictionaries(st.sampled_from(PAIRS), SPANS, max_size=12))
    policy = DelayPolicy(draw(st.sampled_from(Statistic)), draw(st.sampled_from(EstimateMode)))
    inputs = make.facts(
        states,
        Policy(delay=policy),
        views=cache,
        workloads=make.workloads(deployment_web=[f"web-{node}@{node}" for node in references]),
        delay_views=views,
        estimates=None if spans is None else make.Guesses(spans),
    )
    pod = PodInfo("default", "p", annotations={DELAY_ANNOTATION: f"deployment/web: 5 {replicas} {mode}"})
    return Case(references, replicas, mode, pod, inputs)


@st.composite
def windows(draw: st.DrawFn, name: str, kind: str) -> NodeState:
    peers = st.sampled_from([peer for peer in NAMES if peer != name])
    state = make.state(draw(st.dictionaries(peers, st.none() | MS, min_size=1)), freshness=kind)
    if draw(st.booleans()):
        return state
    p50_ms = {peer: window.p50_ms for peer, window in state.latency.peers.items()}
    without_min = {peer: make.window(ms, **({} if ms is None else {"min_ms": None})) for peer, ms in p50_ms.items()}
    return NodeState(None, state.heartbeat, Latency(without_min), None, state.changed_at)


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_filter_score_probes_and_explanation_agree_with_a_slow_reading_of_each_pair(
    cache: Views, data: st.DataObject
) -> None:
    references, replicas, mode, pod, inputs = data.draw(cases(cache))
    deciding = {node: read_deciding(references, node, replicas, mode, inputs) for node in NAMES}
    refused = filter_nodes(pod, NAMES, inputs).refused
    assert {node: refusal.reason for node, refusal in refused.items()} == {
        node: reason(pair.outcome, WEB, BOUND_MS) for node, pair in deciding.items() if pair.outcome.refuses
    }
    evidence = delay_evidence(pod, NAMES, inputs).distances
    assert {node: structs.replace(each, doubt="") for node, (each,) in evidence.items()} == {
        node: expected_evidence(node, pair) for node, pair in deciding.items()
    }
    assert all("nobody confirms it" in evidence[node][0].doubt for node, pair in deciding.items() if pair.lone)
    scored = NearestScore().score(pod, NAMES, inputs)
    assert scored is not None
    assert set(scored.values) == {node for node, pair in deciding.items() if pair.rtt_ms < UNKNOWN_MS and not pair.lone}
    assert scored.unknown == {
        node: f"only one end reports the delay to {WEB}, and nobody confirms it" if pair.lone else evidence[node][0].why
        for node, pair in deciding.items()
        if pair.rtt_ms == UNKNOWN_MS or pair.lone
    }
    by_rtt = sorted(scored.values, key=lambda node: deciding[node].rtt_ms)
    values = [scored.values[node] for node in by_rtt]
    assert values == sorted(values, reverse=True)
    assert all(0 <= value <= 1 for value in values)
    assert list(select_probe_pairs(pod, NAMES, inputs)) == read_probes(references, replicas, mode, inputs)


def expected_evidence(node: str, pair: Pair) -> DelayEvidence:
    why = "" if pair.why is None else reason(pair.why, WEB, BOUND_MS)
    return DelayEvidence(
        WEB,
        pair.reference,
        BOUND_MS,
        f"web-{pair.reference}",
        None if pair.rtt_ms == UNKNOWN_MS else pair.rtt_ms,
        pair.low_ms,
        pair.high_ms,
        pair.source,
        pair.source == "coordinates",
        pair.age_seconds,
        why,
        reporter=pair.reporter,
    )


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_lowering_a_nodes_delay_never_lowers_its_score(cache: Views, data: st.DataObject) -> None:
    """n-3 is no reference, so its own reports change no other node's delay."""
    references, _, _, pod, inputs = data.draw(cases(cache))
    reports = {reference: data.draw(MS) for reference in references}
    reference = data.draw(st.sampled_from(references))
    nearer = reports | {reference: data.draw(MS.filter(lambda ms: ms <= reports[reference]))}
    snapshots = (Snapshot({**inputs.snapshot.nodes, "n-3": make.state(peers)}) for peers in (reports, nearer))
    before, after = (decide(pod, NAMES, structs.replace(inputs, snapshot=each)) for each in snapshots)
    if all("n-3" in decision.plugin_scores[0].values for decision in (before, after)) and "n-3" in before.kept:
        assert after.scores["n-3"] >= before.scores["n-3"]
