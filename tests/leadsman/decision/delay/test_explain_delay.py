"""An explanation names the pair that decides, with its value, interval, source, direction and age."""

import pytest

from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.explain_delay import evidence_text
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.kube.names import REPLICAS_ANNOTATION
from tests.leadsman.decision.conftest import Make

REF = PodInfo("default", "p", labels={"delay_ref": "5"})


def distance(facts: DecisionInputs, node: str = "n", pod: PodInfo = REF) -> DelayEvidence:
    [only] = explain_delay.delay_evidence(pod, [node], facts).distances[node]
    return only


def test_an_estimate_is_told_with_its_interval_and_age(make: Make) -> None:
    facts = make.facts({"ref": make.state({}), "n": make.state({})}, estimates=make.guesses("ref", n=(1.0, 2.0, 4.0)))
    found = distance(facts)
    assert (found.rtt_ms, found.low_ms, found.high_ms, found.source) == (2.0, 1.0, 4.0, "coordinates")
    assert (found.estimated, found.age_seconds, found.why) == (True, 30.0, "delay to ref was not measured")
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 to 4 ms, 30.0 s old), bound 5 ms"


def test_an_estimate_without_an_upper_end_says_so(make: Make) -> None:
    guesses = make.guesses("ref", n=(1.0, 2.0, 60_000.0))
    found = distance(make.facts({"ref": make.state({}), "n": make.state({})}, estimates=guesses))
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 ms or more, 30.0 s old), bound 5 ms"


@pytest.mark.parametrize(("which", "replica"), [("all", "web-2"), ("nearest", "web-1")])
def test_the_replica_that_decides_is_told(make: Make, which: str, replica: str) -> None:
    states = {"r-1": make.state({"n": 1.0}), "r-2": make.state({"n": 2.0})}
    facts = make.facts(states, workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2"]))
    pod = PodInfo("default", "p", labels={"delay_web": "5"}, annotations={REPLICAS_ANNOTATION: which})
    assert distance(facts, pod=pod).pod == replica
    assert f"ms from deployment/web ({replica} on r-" in explain_delay.delay_evidence(pod, ["n"], facts).notes["n"]
