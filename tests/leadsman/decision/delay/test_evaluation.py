"""Estimates may settle what nobody measured, each replica or the nearest counts, and reachability is never inferred."""

import math
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.delay.bounds import DelayBound, ReplicaMode, Target
from leadsman.decision.delay.evaluation import evaluate
from leadsman.decision.delay.explain_delay import delay_evidence
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs, SourceRow
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy
from leadsman.decision.view import Views
from leadsman.kube.names import ESTIMATE_ANNOTATION, REPLICAS_ANNOTATION

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make

HALF_MS = DelayBound("web", 0.5)

GUESSES: Mapping[str, tuple[float, float, float]] = {
    "sure": (1.0, 3.0, 5.0),
    "likely": (1.0, 4.0, 9.0),
    "unlikely": (4.0, 8.0, 16.0),
    "far": (6.0, 8.0, 16.0),
}
NODES = [*GUESSES, "unheard"]


def guessed(make: "Make", use: EstimateMode = EstimateMode.UPPER_BOUND, /, **states: Any) -> DecisionInputs:
    """All nodes are fresh, none measured ref; all but one have an estimate."""
    fresh = {node: make.state({}) for node in ("ref", *NODES)}
    return make.facts(fresh | states, Policy(delay=DelayPolicy(estimate=use)), estimates=make.guesses("ref", **GUESSES))


def reasons(facts: DecisionInputs, **annotations: str) -> dict[str, str]:
    """Of the refused, under a bound of 5 ms."""
    pod = PodInfo("default", "p", labels={"delay_ref": "5"}, annotations=annotations)
    return {node: refusal.reason for node, refusal in filter_nodes(pod, NODES, facts).refused.items()}


FAR = "estimated delay to ref over 5 ms"
UNSURE = "estimated delay to ref may be over 5 ms"
UNMEASURED = "delay to ref was not measured"


@pytest.mark.parametrize(
    ("use", "refused"),
    [
        (EstimateMode.REJECT, dict.fromkeys(NODES, UNMEASURED)),
        (EstimateMode.UPPER_BOUND, {"likely": UNSURE, "unlikely": UNSURE, "far": FAR, "unheard": UNMEASURED}),
        (EstimateMode.ACCEPT, {"unlikely": UNSURE, "far": FAR}),
    ],
)
def test_the_policy_says_what_an_estimate_may_do(make: "Make", use: EstimateMode, refused: dict[str, str]) -> None:
    assert reasons(guessed(make, use)) == refused


@pytest.mark.parametrize("use", EstimateMode)
def test_the_pod_may_choose_otherwise(make: "Make", use: EstimateMode) -> None:
    for policy in EstimateMode:
        assert reasons(guessed(make, policy), **{ESTIMATE_ANNOTATION: use.value}) == reasons(guessed(make, use))


@pytest.mark.parametrize("use", EstimateMode)
def test_a_pair_that_was_probed_in_vain_is_refused_whatever_the_estimate(make: "Make", use: EstimateMode) -> None:
    assert reasons(guessed(make, use, ref=make.state({"sure": None})))["sure"] == "no reply between the node and ref"
    assert reasons(guessed(make, use, sure=make.state({"ref": None})))["sure"] == "no reply between the node and ref"


@pytest.mark.parametrize("freshness", ["stale", "silent", "provisional"])
@pytest.mark.parametrize("silent", ["ref", "sure"])
def test_no_estimate_counts_for_a_node_from_which_nothing_fresh_comes(
    make: "Make", freshness: str, silent: str
) -> None:
    """Its old place may say how far it was, but not that it can be reached."""
    assert "sure" in reasons(guessed(make, **{silent: make.state({}, freshness=freshness)}))


def test_an_old_report_is_told_before_its_estimate(make: "Make") -> None:
    facts = guessed(make, far=make.state({"ref": 1.0}, freshness="stale"))
    assert reasons(facts)["far"] == "delay to ref is stale"


class Listing:
    """A view that vouches for the nodes and knows no delay."""

    source, read_at, fresh_until, nodes = "listing", None, math.inf, frozenset({"ref", *NODES})

    def row(self, reference: str) -> SourceRow:
        return SourceRow()


def test_an_old_report_of_a_node_that_another_source_vouches_for_is_told_unless_the_estimate_keeps_the_bound(
    make: "Make",
) -> None:
    old = {node: make.state({"ref": 1.0}, freshness="stale") for node in ("sure", "far")}
    refused = reasons(structs.replace(guessed(make, **old), delay_views=(Listing(),)))
    assert "sure" not in refused
    assert refused["far"] == "delay to ref is stale"


def test_a_measured_delay_comes_before_an_estimate(make: "Make") -> None:
    refused = reasons(guessed(make, ref=make.state({"sure": 6.0, "far": 4.0})))
    assert refused["sure"] == "delay to ref over 5 ms"
    assert "far" not in refused


@pytest.mark.parametrize("use", EstimateMode)
def test_a_missing_reference_is_never_accepted(make: "Make", use: EstimateMode) -> None:
    pod = PodInfo("default", "p", labels={"delay_gone": "5"})
    assert filter_nodes(pod, NODES, guessed(make, use)).kept == ()


@pytest.fixture
def replicas(make: "Make") -> DecisionInputs:
    """web runs on r-1 and r-2. near-1 is near r-1 only, both is near to both, one is measured by r-1 only."""
    states = {
        "r-1": make.state({"near-1": 1.0, "both": 1.0, "neither": 9.0, "one": 1.0}),
        "r-2": make.state({"near-1": 9.0, "both": 2.0, "neither": 9.0}),
    }
    return make.facts(states, workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2", "web-3@r-2"]))


@pytest.mark.parametrize(
    ("which", "kept"), [("", ("both",)), ("all", ("both",)), ("nearest", ("near-1", "both", "one"))]
)
def test_a_bound_to_a_workload_is_to_all_its_replicas_or_to_the_nearest(
    replicas: DecisionInputs, which: str, kept: tuple[str, ...]
) -> None:
    pod = PodInfo("default", "p", labels={"delay_web": "5"}, annotations={REPLICAS_ANNOTATION: which} if which else {})
    judged = filter_nodes(pod, ["near-1", "both", "neither", "one"], replicas)
    assert judged.kept == kept
    assert judged.refused["neither"].reason == "delay to deployment/web over 5 ms"


def test_the_cause_that_says_most_is_told_of_all_and_the_most_hopeful_of_the_nearest(replicas: DecisionInputs) -> None:
    to_all, nearest = (Target("web", ("r-1", "r-2"), mode) for mode in ReplicaMode)
    assert outcome("one", to_all, replicas) is Outcome.MEASURED_OVER
    assert outcome("one", nearest, replicas) is Outcome.UNMEASURED
    assert outcome("r-1", to_all, replicas) is Outcome.UNMEASURED
    assert outcome("r-1", nearest, replicas) is Outcome.PASSES


def outcome(node: str, target: Target, inputs: DecisionInputs, bound: DelayBound = HALF_MS) -> Outcome:
    found = evaluate(bound, target, inputs)
    return Outcome(int(found.outcome[found.index.position(node)]))


def span(rng: random.Random) -> tuple[float, float, float]:
    low, middle, high = sorted(rng.uniform(0, 12) for _ in range(3))
    return low, middle, high


def test_many_replicas_agree_with_each_by_itself(make: "Make") -> None:
    """Random measurements, estimates and freshness; each pair judged alone and joined by hand."""
    rng = random.Random(3)
    for _ in range(40):
        names = [f"n-{number}" for number in range(12)]
        kinds = ["fresh", "fresh", "fresh", "stale"]
        states = {
            name: make.state(
                {p: rng.choice([1.0, 9.0, None]) for p in rng.sample(names, 4)}, freshness=rng.choice(kinds)
            )
            for name in names
        }
        pairs = [(one, other) for one in names for other in names if rng.random() < 0.6]
        spans = {pair: span(rng) for pair in pairs}
        facts = make.facts(states, estimates=make.guessed(spans))
        nodes = tuple(rng.sample(names, 3))
        for use in EstimateMode:
            bound = DelayBound("x", 5.0, estimate=use)
            alone = [kept(bound, (node,), ReplicaMode.ALL, names, facts) for node in nodes]
            assert kept(bound, nodes, ReplicaMode.ALL, names, facts) == set.intersection(*alone)
            assert kept(bound, nodes, ReplicaMode.NEAREST, names, facts) == set.union(*alone)


def kept(
    bound: DelayBound, to: tuple[str, ...], replicas: ReplicaMode, names: list[str], facts: DecisionInputs
) -> set[str]:
    return {name for name in names if not outcome(name, Target("x", to, replicas), facts, bound).refuses}


@pytest.fixture
def two_replicas(make: "Make") -> DecisionInputs:
    """web-1 is estimated at 3 ms (1 to 9) from n, web-2 is measured at 4.5 ms."""
    return make.facts(
        {"r-1": make.state({}), "r-2": make.state({"n": 4.5}), "n": make.state({})},
        workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2"]),
        estimates=make.guesses("r-1", n=(1.0, 3.0, 9.0)),
    )


def decided(mode: str, inputs: DecisionInputs) -> tuple[FilterResult, DelayEvidence]:
    pod = PodInfo("default", "p", labels={"delay_web": "5"}, annotations={REPLICAS_ANNOTATION: mode})
    [evidence] = delay_evidence(pod, ["n"], inputs).distances["n"]
    return filter_nodes(pod, ["n"], inputs), evidence


def test_the_nearest_replica_that_keeps_the_bound_decides_and_not_a_nearer_one_that_may_not(
    two_replicas: DecisionInputs,
) -> None:
    judged, evidence = decided("nearest", two_replicas)
    assert judged.kept == ("n",)
    assert (evidence.pod, evidence.rtt_ms, evidence.estimated) == ("web-2", 4.5, False)


def test_of_all_replicas_the_one_that_refuses_is_the_one_explained(two_replicas: DecisionInputs) -> None:
    judged, evidence = decided("all", two_replicas)
    assert judged.refused["n"].reason == "estimated delay to deployment/web may be over 5 ms"
    assert (evidence.pod, evidence.rtt_ms, evidence.estimated) == ("web-1", 3.0, True)
    assert (evidence.low_ms, evidence.high_ms, evidence.bound_ms) == (1.0, 9.0, 5.0)


def test_of_two_replicas_that_tell_alike_the_farther_decides_for_all_and_the_nearer_for_nearest(
    make: "Make",
) -> None:
    states = {"r-1": make.state({"n": 2.0}), "r-2": make.state({"n": 3.0})}
    inputs = make.facts(states, workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2"]))
    assert [decided(mode, inputs)[1].rtt_ms for mode in ReplicaMode] == [3.0, 2.0]


def test_a_node_that_comes_or_goes_moves_no_other_nodes_value(make: "Make") -> None:
    cache, bound, target = Views(), DelayBound("ref", 5.0), Target("ref", ("ref",))
    for names in (["a", "b"], ["b", "a", "c"], ["c", "b"], ["b"], ["a", "b"]):
        rtts = {name: float(ord(name)) for name in names}
        inputs = make.facts(
            {**{name: make.state({"ref": ms}) for name, ms in rtts.items()}, "ref": make.state()}, views=cache
        )
        found = evaluate(bound, target, inputs)
        known = {name: found.rtt_ms[found.index.position(name)] for name in "abc"}
        assert {name: ms for name, ms in known.items() if not math.isnan(ms)} == rtts


def _spread(make: "Make", workloads: int) -> tuple[DecisionInputs, PodInfo]:
    """A pod with a bound to each of so many workloads, of 16 nodes each."""
    nodes = [f"n-{number}" for number in range(16)]
    running: dict[str, Any] = {
        f"deployment_w-{number}": [f"p-{node}@{node}" for node in nodes] for number in range(workloads)
    }
    facts = make.facts({node: make.state({}) for node in nodes}, workloads=make.workloads(**running))
    return facts, make.pod(**{f"delay_w-{number}": "5" for number in range(workloads)})


def test_bounds_of_one_pod_to_too_many_nodes_are_refused_by_their_number(make: "Make") -> None:
    facts, pod = _spread(make, 9)
    reasons = {refusal.reason for refusal in filter_nodes(pod, ["n-0", "n-1"], facts).refused.values()}
    assert reasons == {"the pod's delay bounds are to 144 nodes in all; at most 128 are allowed"}


def test_bounds_to_the_most_nodes_that_are_allowed_are_evaluated(make: "Make") -> None:
    facts, pod = _spread(make, 8)
    reasons = {refusal.reason for refusal in filter_nodes(pod, ["n-0", "n-1"], facts).refused.values()}
    assert reasons == {"delay to deployment/w-0 was not measured"}


def test_an_evaluation_that_nobody_waits_for_stops_at_its_next_reference(make: "Make") -> None:
    steps = list[int]()

    def stop_at_third() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise InterruptedError

    facts, pod = _spread(make, 8)
    with pytest.raises(InterruptedError):
        filter_nodes(pod, ["n-0"], structs.replace(facts, checkpoint=stop_at_third))
    assert len(steps) == 3
