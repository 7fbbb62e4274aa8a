"""A delay that one end alone reports counts as no less than others' reports say; far below it is not believed."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import filter_nodes
from leadsman.decision.delay.delay_plugins import NearestScore
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from tests.leadsman.decision.conftest import Make

IMPLAUSIBLE = "delay to ref is implausible: only one end reports it, and lower than other nodes allow"


def claimed(
    make: Make,
    own_ms: float | None = 0.001,
    reference_ms: float | None = None,
    lowest_ms: float = 10.0,
    policy: Policy | None = None,
) -> DecisionInputs:
    """`node` says that it is `own_ms` from ref; it is estimated at 15 to 25 ms."""
    states = {
        "ref": make.state({} if reference_ms is None else {"node": reference_ms}),
        "node": make.state({} if own_ms is None else {"ref": own_ms}),
        "near": make.state({"ref": 18.0}),
    }
    estimates = make.guesses("ref", node=(15.0, 20.0, 25.0), near=(12.0, 18.0, 24.0))
    estimates = structs.replace(estimates, expected_ms=2 * lowest_ms, lowest_ms=lowest_ms)
    return make.facts(states, policy, estimates=estimates)


def pod(bound_ms: float) -> PodInfo:
    return PodInfo("default", "p", labels={"delay_ref": f"{bound_ms:g}"})


def why(bound_ms: float, facts: DecisionInputs) -> str:
    refusal = filter_nodes(pod(bound_ms), ["node"], facts).refused.get("node")
    return refusal.reason if refusal else "kept"


@pytest.mark.parametrize(
    ("bound_ms", "says"), [(5, IMPLAUSIBLE), (24, IMPLAUSIBLE), (25, "kept")], ids=["over", "unsure", "sure"]
)
def test_the_estimate_decides_instead(make: Make, bound_ms: float, says: str) -> None:
    assert why(bound_ms, claimed(make)) == says


def test_of_two_reports_the_larger_counts_and_may_be_anything(make: Make) -> None:
    assert why(5, claimed(make, 0.001, 4.0)) == "kept"
    assert why(5, claimed(make, 0.001, 6.0)) == "delay to ref over 5 ms"


@pytest.mark.parametrize("own_ms", [10.0, 15.0, 20.0])
def test_a_plausible_report_counts_as_no_less_than_others_say(make: Make, own_ms: float) -> None:
    assert why(20, claimed(make, own_ms)) == "kept"
    assert why(19.9, claimed(make, own_ms)) == "delay to ref over 19.9 ms"
    [evidence] = delay_evidence(pod(30), ["node"], claimed(make, own_ms)).distances["node"]
    assert (evidence.rtt_ms, evidence.source) == (20.0, "agents")
    doubt = f"node alone reports {own_ms:g} ms, which is less"
    assert evidence.doubt == ("" if own_ms == 20 else doubt)


@given(st.floats(0.001, 9.99))
def test_what_a_node_alone_says_below_the_limit_changes_neither_its_score_nor_the_filter(
    make: Make, own_ms: float
) -> None:
    silent, says = claimed(make, own_ms=None), claimed(make, own_ms)
    nodes = ["node", "near"]
    scores = [NearestScore().score(pod(30), nodes, facts) for facts in (silent, says)]
    assert scores[0] is not None
    assert scores[1] is not None
    assert dict(scores[0].values) == dict(scores[1].values)
    assert [filter_nodes(pod(24), nodes, facts).kept for facts in (silent, says)] == [("near",)] * 2


@given(st.floats(0.001, 20), st.floats(0.001, 20))
def test_a_node_gains_nothing_by_saying_less_than_others_do(make: Make, one_ms: float, other_ms: float) -> None:
    values = []
    for own_ms in (one_ms, other_ms, 20.0):
        score = NearestScore().score(pod(30), ["node", "near"], claimed(make, own_ms))
        assert score is not None
        values.append(score.values["node"])
    assert max(values) == values[2]


def test_the_other_end_is_asked_to_measure(make: Make) -> None:
    assert select_probe_pairs(pod(24), ["node"], claimed(make)) == (("ref", "node"),)
    assert select_probe_pairs(pod(24), ["node"], claimed(make, None, 0.001)) == (("node", "ref"),)


@pytest.mark.parametrize(
    ("lowest_ms", "because"),
    [
        (10.0, "other nodes' reports allow no less than 10 ms"),
        (inf, "too few of the nodes that probe one of the two get a reply"),
    ],
)
def test_an_explanation_says_what_was_reported_and_why_it_is_not_believed(
    make: Make, lowest_ms: float, because: str
) -> None:
    evidence = delay_evidence(pod(30), ["node"], claimed(make, lowest_ms=lowest_ms))
    assert f"node alone reports 0.001 ms and is not believed: {because}" in evidence.notes["node"]
    assert evidence.notes["node"].startswith("about 20 ms from ref (coordinates, 15 to 25 ms, 30.0 s old), bound 30 ms")
