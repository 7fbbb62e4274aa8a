"""An explanation names the pair that decides, with its value, interval, source, direction and age."""

import math
import random
from typing import TYPE_CHECKING

import pytest

from leadsman.decision.decide import filter_nodes
from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.bounds import DelayBound, Target
from leadsman.decision.delay.evaluation import evaluate
from leadsman.decision.delay.explain_delay import evidence_text
from leadsman.decision.explain import explain
from leadsman.decision.inputs import DecisionInputs, SourceRow
from leadsman.decision.model import Decision, DelayEvidence, PodInfo
from leadsman.decision.policy import DelayPolicy, Direction, Policy
from leadsman.kube.names import REPLICAS_ANNOTATION

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make

REF = PodInfo("default", "p", labels={"delay_ref": "5"})


def distance(facts: DecisionInputs, node: str = "n", pod: PodInfo = REF) -> DelayEvidence:
    [only] = explain_delay.delay_evidence(pod, [node], facts).distances[node]
    return only


def both_ways(make: "Make", direction: Direction = Direction.WORST) -> DecisionInputs:
    states = {"ref": make.state({"n": 3.0}), "n": make.state({"ref": 4.0})}
    return make.facts(states, Policy(delay=DelayPolicy(direction=direction)))


@pytest.mark.parametrize(
    ("direction", "rtt_ms", "used", "reporter"),
    [
        (Direction.WORST, 4.0, "backward", "n"),
        (Direction.BACKWARD, 4.0, "backward", "n"),
        (Direction.FORWARD, 3.0, "forward", "ref"),
    ],
)
def test_whose_measurement_counts_is_told(
    make: "Make", direction: Direction, rtt_ms: float, used: str, reporter: str
) -> None:
    assert distance(both_ways(make, direction)) == DelayEvidence(
        to="ref",
        reference="ref",
        bound_ms=5.0,
        rtt_ms=rtt_ms,
        low_ms=rtt_ms / 2,
        high_ms=rtt_ms * 2,
        source="agents",
        direction=used,
        age_seconds=1.0,
        reporter=reporter,
    )


def test_the_text_names_the_node_that_measured(make: "Make") -> None:
    found = distance(both_ways(make))
    assert evidence_text(found) == "4 ms from ref (measured by n's agent, 2 to 8 ms, 1.0 s old), bound 5 ms"


def test_of_two_equal_directions_the_forward_one_is_told(make: "Make") -> None:
    assert distance(make.facts({"ref": make.state({"n": 3.0}), "n": make.state({"ref": 3.0})})).direction == "forward"


def test_an_estimate_is_told_with_its_interval_and_age(make: "Make") -> None:
    facts = make.facts({"ref": make.state({}), "n": make.state({})}, estimates=make.guesses("ref", n=(1.0, 2.0, 4.0)))
    found = distance(facts)
    assert (found.rtt_ms, found.low_ms, found.high_ms, found.source) == (2.0, 1.0, 4.0, "coordinates")
    assert (found.estimated, found.age_seconds, found.why) == (True, 30.0, "delay to ref was not measured")
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 to 4 ms, 30.0 s old), bound 5 ms"


def test_an_estimate_without_an_upper_end_says_so(make: "Make") -> None:
    guesses = make.guesses("ref", n=(1.0, 2.0, 60_000.0))
    found = distance(make.facts({"ref": make.state({}), "n": make.state({})}, estimates=guesses))
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 ms or more, 30.0 s old), bound 5 ms"


class Static:
    """Does not age."""

    source, read_at, fresh_until, nodes = "static", None, float("inf"), frozenset({"ref", "n"})

    def row(self, reference: str) -> SourceRow:
        return SourceRow({"n": 3.0}, {"n": 2.0}) if reference == "ref" else SourceRow()


def test_another_source_is_told_by_its_name(make: "Make") -> None:
    facts = make.facts({}, delay_views=(Static(),))
    assert evidence_text(distance(facts)) == "3 ms from ref (static, measured by ref), bound 5 ms"


class Second(Static):
    source = "second"

    def row(self, reference: str) -> SourceRow:
        return SourceRow({"n": 1.0, "m": 1.5}) if reference == "ref" else SourceRow()


def test_the_first_source_that_knows_a_pair_is_explained_and_the_last_where_the_first_knows_nothing(
    make: "Make",
) -> None:
    inputs = make.facts({}, delay_views=(Static(), Second()))
    assert (distance(inputs).rtt_ms, distance(inputs).source) == (3.0, "static")
    assert (distance(inputs, "m").rtt_ms, distance(inputs, "m").source) == (1.5, "second")


def test_the_reference_itself_needs_no_source(make: "Make") -> None:
    assert evidence_text(distance(make.facts({"ref": make.state()}), "ref")) == "0 ms from ref, bound 5 ms"


def test_what_is_not_known_says_why_and_only_a_node_that_passes_says_accepted(make: "Make") -> None:
    states = {"ref": make.state({"n": None}), "m": make.state({})}
    evidence = explain_delay.delay_evidence(REF, ["n", "m"], make.facts(states))
    assert evidence.distances["n"][0].why == "no reply between the node and ref"
    assert evidence.notes["m"] == "delay to ref was not measured, accepted"


def test_an_estimate_is_not_told_of_a_pair_that_was_probed_in_vain(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"n": None})}, estimates=make.guesses("ref", n=(1.0, 2.0, 4.0)))
    assert distance(facts).rtt_ms is None


@pytest.mark.parametrize(("which", "replica"), [("all", "web-2"), ("nearest", "web-1")])
def test_the_replica_that_decides_is_told(make: "Make", which: str, replica: str) -> None:
    states = {"r-1": make.state({"n": 1.0}), "r-2": make.state({"n": 2.0})}
    facts = make.facts(states, workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2"]))
    pod = PodInfo("default", "p", labels={"delay_web": "5"}, annotations={REPLICAS_ANNOTATION: which})
    assert distance(facts, pod=pod).pod == replica
    assert f"ms from deployment/web ({replica} on r-" in explain_delay.delay_evidence(pod, ["n"], facts).notes["n"]


def test_explain_carries_the_distances_of_kept_and_refused(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"n": 3.0, "m": 9.0})})
    nodes = explain(Decision(REF, *filter_nodes(REF, ["n", "m", "x"], facts), (), {}), facts).nodes
    assert {each.node: [one.rtt_ms for one in each.distances] for each in nodes} == {
        "n": [3.0],
        "m": [9.0],
        "x": [None],
    }


def test_what_is_told_is_what_was_decided_on(make: "Make") -> None:
    """Random reports: the value told is the one that the filter compared, for every pair."""
    rng = random.Random(2)
    for direction in Direction:
        names = [f"n-{number}" for number in range(15)]
        peers = {
            name: {peer: rng.choice([None, rng.uniform(0, 9)]) for peer in names if rng.random() < 0.5}
            for name in names
        }
        states = {name: make.state(peers[name], freshness=rng.choice(["fresh", "stale"])) for name in names}
        facts = make.facts(states, Policy(delay=DelayPolicy(direction=direction)))
        for reference in names:
            pod = PodInfo("default", "p", labels={f"delay_{reference}": "5"})
            found = explain_delay.delay_evidence(pod, names, facts).distances
            known = {name: found[name][0].rtt_ms for name in names if found[name][0].rtt_ms is not None}
            judged = evaluate(DelayBound(reference, 5.0), Target(reference, (reference,)), facts)
            rtt_ms = judged.rtt_ms[judged.index.positions(names)].tolist()
            assert known == {name: ms for name, ms in zip(names, rtt_ms, strict=True) if not math.isnan(ms)}
