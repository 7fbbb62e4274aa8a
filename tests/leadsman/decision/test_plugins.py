"""The registry: unique names, and every plugin's own name on what it says."""

from typing import TYPE_CHECKING

from leadsman.decision.decide import FILTERS, SCORES
from leadsman.decision.inputs import DecisionInputs

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make


def test_names_are_unique() -> None:
    names = [*(each.name for each in FILTERS), *(each.name for each in SCORES)]
    assert len(set(names)) == len(names)


def test_plugins_sign_what_they_say(edge: DecisionInputs, make: "Make") -> None:
    pod, nodes = make.pod(**{"delay_edge-1": "0"}), ["edge-1", "edge-2"]
    assert {refusal.plugin for each in FILTERS for refusal in each.refusals(pod, nodes, edge).values()} == {"delay"}
    signed = {each.name: part.plugin for each in SCORES if (part := each.score(pod, nodes, edge))}
    assert signed == {"nearest": "nearest", "pressure": "pressure"}
