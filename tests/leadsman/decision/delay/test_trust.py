"""Whom a bound and a preference trust: a lost direction, a report that nobody confirms, a node that is gone."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.delay.bounds import BadBound, NoTarget, parse_bounds, resolve_bounds
from leadsman.decision.delay.delay_plugins import NEAREST, NearestScore
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.explain import explain
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DelayPolicy, Policy
from tests.leadsman.decision import make
from tests.leadsman.decision.make import Listed

REF = PodInfo("default", "p", labels={"delay_ref": "40"})
delays = st.floats(1, 100)


@pytest.mark.parametrize(("forward", "backward"), [(None, 32.6), (32.6, None)])
def test_a_lost_direction_is_no_reply_whatever_the_other_one_measured(
    forward: float | None, backward: float | None
) -> None:
    inputs = make.facts({"ref": make.state({"n": forward}), "n": make.state({"ref": backward})})
    kept, refused = filter_nodes(REF, ["n"], inputs)
    assert (kept, refused["n"].reason) == ((), "no reply between the node and ref")
    [explained] = explain(decide(REF, ["n"], inputs), inputs).nodes
    lost, measured = ("ref", "n") if forward is None else ("n", "ref")
    assert f"{lost} gets no reply from {measured}, which measures 32.6 ms back" in explained.reason


def test_where_nodes_are_followed_one_that_is_not_there_is_missing_unless_it_is_a_declared_site() -> None:
    """Whatever a static file says of a node of the past, or a report that has not run out."""
    states = {"ref": make.state({"near": 3.0}), "near": make.state({"ref": 3.0})}
    inputs = make.facts(states, delay_views=(Listed("static", {("ref", "near"): 3.0}),))
    followed = structs.replace(inputs, node_roles={"near": ""})
    declared = structs.replace(followed, policy=Policy(DelayPolicy(sites=("ref",))))
    assert filter_nodes(REF, ["near"], inputs).kept == ("near",)
    assert filter_nodes(REF, ["near"], followed).refused["near"].reason.startswith("no such node ref")
    assert filter_nodes(REF, ["near"], declared).kept == ("near",)
    assert filter_nodes(REF, ["near"], structs.replace(inputs, node_roles={"near": "", "ref": "cloud"})).kept


@given(
    honest=st.lists(delays, min_size=2, max_size=6), truth_ms=delays, lie_ms=st.floats(0.001, 100), second=st.booleans()
)
def test_a_liar_whom_nobody_confirms_is_unknown_and_one_whom_the_other_end_measures_gains_nothing(
    honest: list[float], truth_ms: float, lie_ms: float, second: bool
) -> None:
    """One liar among n, with and without a report of the reference about it."""
    names = [f"n-{number}" for number in range(len(honest))]
    peers = dict(zip(names, honest, strict=True)) | ({"liar": truth_ms} if second else {})
    states = {name: make.state({"ref": ms}) for name, ms in zip(names, honest, strict=True)}
    states |= {"liar": make.state({"ref": lie_ms}), "ref": make.state(peers)}
    pod = PodInfo("default", "p", labels={"delay_ref": "100"})
    inputs = make.facts(states)
    decision = decide(pod, [*names, "liar"], inputs)
    [nearest] = [each for each in decision.plugin_scores if each.plugin == NEAREST]
    [told] = [each for each in explain(decision, inputs).nodes if each.node == "liar"]
    says_so = "liar alone reports it, and nobody confirms it" in told.reason
    if second:
        truthful = make.facts(states | {"liar": make.state({"ref": truth_ms})})
        [of_truth] = [each for each in decide(pod, [*names, "liar"], truthful).plugin_scores if each.plugin == NEAREST]
        assert nearest.values["liar"] <= of_truth.values["liar"] + 1e-9
        assert not says_so
    else:
        assert "liar" in nearest.unknown
        assert decision.scores["liar"] <= max(decision.scores[name] for name in names)
        assert says_so


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({}, {"leadsman.dev/delay": "n1: \x1b]0;pwned\x07\x1b[31m5"}),
        ({}, {"leadsman.dev/delay": "n1\u202e: 5"}),
        ({}, {"leadsman.dev/delay": "n1: 5 \x1b[2J"}),
        ({}, {"leadsman.dev/delay-replicas": "\x1b[31m", "leadsman.dev/delay": "n1: 5"}),
        ({"delay_n1": "5\r\n"}, {}),
        ({"delay_\x1b[31mn1": "5"}, {}),
    ],
)
def test_a_reason_has_no_control_character(labels: dict[str, str], annotations: dict[str, str]) -> None:
    """Also where it goes to an Event without a decision."""
    pod = PodInfo("default", "p", labels=labels, annotations=annotations)
    _, refused = filter_nodes(pod, ["n"], make.facts({}))
    assert refused["n"].reason.isprintable()
    try:
        [target] = resolve_bounds(parse_bounds(pod), pod, ["n"], make.facts({}))
        text = target.reason if isinstance(target, NoTarget) else ""
    except BadBound as error:
        text = str(error)
    assert text.isprintable()
    assert text


# A delay that one end alone reports counts as no less than others' reports say; far below it is not believed.

IMPLAUSIBLE = "delay to ref is implausible: only one end reports it, and lower than other nodes allow"


def claimed(
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
def test_the_estimate_decides_instead(bound_ms: float, says: str) -> None:
    assert why(bound_ms, claimed()) == says


def test_of_two_reports_the_larger_counts_and_may_be_anything() -> None:
    assert why(5, claimed(0.001, 4.0)) == "kept"
    assert why(5, claimed(0.001, 6.0)) == "delay to ref over 5 ms"


@pytest.mark.parametrize("own_ms", [10.0, 15.0, 20.0])
def test_a_plausible_report_counts_as_no_less_than_others_say(own_ms: float) -> None:
    assert why(20, claimed(own_ms)) == "kept"
    assert why(19.9, claimed(own_ms)) == "delay to ref over 19.9 ms"
    [evidence] = delay_evidence(pod(30), ["node"], claimed(own_ms)).distances["node"]
    assert (evidence.rtt_ms, evidence.source) == (20.0, "agents")
    doubt = f"node alone reports {own_ms:g} ms, which is less"
    assert evidence.doubt == ("" if own_ms == 20 else doubt)


@given(st.floats(0.001, 9.99))
def test_what_a_node_alone_says_below_the_limit_changes_neither_its_score_nor_the_filter(own_ms: float) -> None:
    silent, says = claimed(own_ms=None), claimed(own_ms)
    nodes = ["node", "near"]
    scores = [NearestScore().score(pod(30), nodes, facts) for facts in (silent, says)]
    assert scores[0] is not None
    assert scores[1] is not None
    assert dict(scores[0].values) == dict(scores[1].values)
    assert [filter_nodes(pod(24), nodes, facts).kept for facts in (silent, says)] == [("near",)] * 2


@given(st.floats(0.001, 20), st.floats(0.001, 20))
def test_a_node_gains_nothing_by_saying_less_than_others_do(one_ms: float, other_ms: float) -> None:
    values = []
    for own_ms in (one_ms, other_ms, 20.0):
        score = NearestScore().score(pod(30), ["node", "near"], claimed(own_ms))
        assert score is not None
        values.append(score.values["node"])
    assert max(values) == values[2]


def test_the_other_end_is_asked_to_measure() -> None:
    assert select_probe_pairs(pod(24), ["node"], claimed()) == (("ref", "node"),)
    assert select_probe_pairs(pod(24), ["node"], claimed(None, 0.001)) == (("node", "ref"),)


@pytest.mark.parametrize(
    ("lowest_ms", "because"),
    [
        (10.0, "other nodes' reports allow no less than 10 ms"),
        (inf, "too few of the nodes that probe one of the two get a reply"),
    ],
)
def test_an_explanation_says_what_was_reported_and_why_it_is_not_believed(lowest_ms: float, because: str) -> None:
    evidence = delay_evidence(pod(30), ["node"], claimed(lowest_ms=lowest_ms))
    assert f"node alone reports 0.001 ms and is not believed: {because}" in evidence.notes["node"]
    assert evidence.notes["node"].startswith("about 20 ms from ref (coordinates, 15 to 25 ms, 30.0 s old), bound 30 ms")
