"""The pairs that a decision turns on: those that, once measured, let a node pass or fail for sure."""

from typing import Any

import pytest

from leadsman.decision.delay.probe_pairs import MAX_PROBE_PAIRS, select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from tests.leadsman.decision.conftest import Make

NODES = ["far", "unheard", "likely", "sure", "measured", "over", "silent", "vain"]


def known(make: Make, **others: Any) -> DecisionInputs:
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


def test_each_pair_is_named_once_for_several_bounds(make: Make) -> None:
    pod = PodInfo("default", "p", labels={"delay_ref": "5"}, annotations={"leadsman.dev/delay": "node/ref: 6"})
    assert select_probe_pairs(pod, ["sure", "likely"], known(make)) == (("sure", "ref"), ("likely", "ref"))


def test_a_node_that_another_bound_rules_out_is_not_worth_a_probe(make: Make) -> None:
    facts = known(make)
    states = {**facts.snapshot.nodes, "other": make.state({"sure": 9.0, "likely": 1.0})}
    again = make.facts(states, estimates=facts.estimates)
    assert pairs(again, ["sure", "likely"], delay_ref="5", delay_other="5") == (("likely", "ref"),)


@pytest.mark.parametrize("labels", [{"delay_ref": "x"}, {"delay_gone": "5"}, {"delay_ref": "5", "delay_gone": "5"}])
def test_nothing_is_wanted_where_measuring_cannot_help(make: Make, labels: dict[str, Any]) -> None:
    assert pairs(known(make), **labels) == ()


@pytest.mark.parametrize("most", [1, 2, 5, 16])
def test_of_many_pairs_the_nearest_are_named_and_of_equal_ones_those_first_by_name(make: Make, most: int) -> None:
    nodes = [f"n-{number}" for number in range(9)]
    spans = {node: (1.0, 2.0 + int(node[2:]) % 3, 9.0) for node in nodes[:6]}
    facts = make.facts({node: make.state({}) for node in ["ref", *nodes]}, estimates=make.guesses("ref", **spans))
    by_name = sorted(nodes, key=lambda node: (spans[node][1] if node in spans else 99.0, node))
    assert pairs(facts, nodes[::-1], most) == tuple((node, "ref") for node in by_name[:most])
