"""An explanation names the pair that decides, with its value, interval, source, direction and age."""

from typing import Any

import pytest

from leadsman.decision.delay import explain_delay
from leadsman.decision.delay.explain_delay import evidence_text
from leadsman.decision.delay.probe_pairs import MAX_PROBE_PAIRS, select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, PodInfo
from leadsman.kube.names import REPLICAS_ANNOTATION
from tests.leadsman.decision import make

REF = PodInfo("default", "p", labels={"delay_ref": "5"})


def distance(facts: DecisionInputs, node: str = "n", pod: PodInfo = REF) -> DelayEvidence:
    [only] = explain_delay.delay_evidence(pod, [node], facts).distances[node]
    return only


def test_an_estimate_is_told_with_its_interval_and_age() -> None:
    facts = make.facts({"ref": make.state({}), "n": make.state({})}, estimates=make.guesses("ref", n=(1.0, 2.0, 4.0)))
    found = distance(facts)
    assert (found.rtt_ms, found.low_ms, found.high_ms, found.source) == (2.0, 1.0, 4.0, "coordinates")
    assert (found.estimated, found.age_seconds, found.why) == (True, 30.0, "delay to ref was not measured")
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 to 4 ms, 30.0 s old), bound 5 ms"


def test_an_estimate_without_an_upper_end_says_so() -> None:
    guesses = make.guesses("ref", n=(1.0, 2.0, 60_000.0))
    found = distance(make.facts({"ref": make.state({}), "n": make.state({})}, estimates=guesses))
    assert evidence_text(found) == "about 2 ms from ref (coordinates, 1 ms or more, 30.0 s old), bound 5 ms"


@pytest.mark.parametrize(("which", "replica"), [("all", "web-2"), ("nearest", "web-1")])
def test_the_replica_that_decides_is_told(which: str, replica: str) -> None:
    states = {"r-1": make.state({"n": 1.0}), "r-2": make.state({"n": 2.0})}
    facts = make.facts(states, workloads=make.workloads(deployment_web=["web-1@r-1", "web-2@r-2"]))
    pod = PodInfo("default", "p", labels={"delay_web": "5"}, annotations={REPLICAS_ANNOTATION: which})
    assert distance(facts, pod=pod).pod == replica
    assert f"ms from deployment/web ({replica} on r-" in explain_delay.delay_evidence(pod, ["n"], facts).notes["n"]


# The pairs that a decision turns on: those that, once measured, let a node pass or fail for sure.

NODES = ["far", "unheard", "likely", "sure", "measured", "over", "silent", "vain"]


def known(**others: Any) -> DecisionInputs:
    states = {node: make.state({}) for node in NODES}
    states |= {
        "ref": make.state({"measured": 1.0, "over": 9.0, "vain": None}),
        "silent": make.state({}, freshness="stale"),
    }
    spans = {"sure": (1.0, 3.0, 5.0), "likely": (1.0, 4.0, 9.0), "far": (6.0, 8.0, 16.0), "silent": (1.0, 2.0, 3.0)}
    return make.facts(states, estimates=make.guesses("ref", **spans), **others)


def pairs(
    facts: DecisionInputs, nodes: list[str] = NODES, most: int = MAX_PROBE_PAIRS, **labels: str
) -> tuple[tuple[str, str], ...]:
    return select_probe_pairs(PodInfo("default", "p", labels=labels or {"delay_ref": "5"}), nodes, facts, most)


def test_each_pair_is_named_once_for_several_bounds() -> None:
    pod = PodInfo("default", "p", labels={"delay_ref": "5"}, annotations={"leadsman.dev/delay": "node/ref: 6"})
    assert select_probe_pairs(pod, ["sure", "likely"], known()) == (("sure", "ref"), ("likely", "ref"))


def test_a_node_that_another_bound_rules_out_is_not_worth_a_probe() -> None:
    facts = known()
    states = {**facts.snapshot.nodes, "other": make.state({"sure": 9.0, "likely": 1.0})}
    again = make.facts(states, estimates=facts.estimates)
    assert pairs(again, ["sure", "likely"], delay_ref="5", delay_other="5") == (("likely", "ref"),)


@pytest.mark.parametrize("labels", [{"delay_ref": "x"}, {"delay_gone": "5"}, {"delay_ref": "5", "delay_gone": "5"}])
def test_nothing_is_wanted_where_measuring_cannot_help(labels: dict[str, Any]) -> None:
    assert pairs(known(), **labels) == ()


@pytest.mark.parametrize("most", [1, 2, 5, 16])
def test_of_many_pairs_the_nearest_are_named_and_of_equal_ones_those_first_by_name(most: int) -> None:
    nodes = [f"n-{number}" for number in range(9)]
    spans = {node: (1.0, 2.0 + int(node[2:]) % 3, 9.0) for node in nodes[:6]}
    facts = make.facts({node: make.state({}) for node in ["ref", *nodes]}, estimates=make.guesses("ref", **spans))
    by_name = sorted(nodes, key=lambda node: (spans[node][1] if node in spans else 99.0, node))
    assert pairs(facts, nodes[::-1], most) == tuple((node, "ref") for node in by_name[:most])
