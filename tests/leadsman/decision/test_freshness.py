"""How long a node's data may be used, for all at once and for one."""

from typing import TYPE_CHECKING

import pytest

from leadsman.decision.freshness import fresh_mask, fresh_nodes, freshness_of, not_fresh_nodes
from leadsman.decision.inputs import DecisionInputs

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make

KINDS = ("fresh", "stale", "provisional", "silent")


@pytest.fixture
def inputs(make: "Make") -> DecisionInputs:
    return make.facts({kind: make.state({}, {}, kind) for kind in KINDS})


@pytest.mark.parametrize(("later", "fresh"), [(13.999, True), (14.0, False)])
def test_data_are_fresh_for_three_intervals_since_the_last_change(make: "Make", later: float, fresh: bool) -> None:
    inputs = make.facts({"a": make.state({}, {}, "fresh")}, now=make.now + later)
    assert (fresh_nodes(inputs) == {"a"}) is fresh


def test_what_never_changed_is_never_fresh(inputs: DecisionInputs) -> None:
    assert set(not_fresh_nodes(inputs)) == {"stale", "provisional", "silent"}


@pytest.mark.parametrize("kind", KINDS)
def test_all_at_once_agrees_with_one(inputs: DecisionInputs, kind: str) -> None:
    index = inputs.cache.index(inputs.snapshot)
    assert freshness_of(kind, inputs) == kind
    assert fresh_mask(index, inputs)[index.position(kind)] == (kind == "fresh")


def test_a_node_that_is_not_known_is_silent_and_not_fresh(inputs: DecisionInputs) -> None:
    index = inputs.cache.index(inputs.snapshot, [(KINDS, ["beyond"])])
    assert freshness_of("absent", inputs) == "silent"
    assert not fresh_mask(index, inputs)[[index.position("absent"), index.position("beyond")]].any()
    assert "beyond" not in not_fresh_nodes(inputs)
