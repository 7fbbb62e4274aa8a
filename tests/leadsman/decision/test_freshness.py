"""How long a node's data may be used, for all at once and for one."""

from types import SimpleNamespace

import pytest

from leadsman.decision.freshness import NEVER_FRESH, fresh_until, freshness_of
from leadsman.decision.inputs import DecisionInputs


@pytest.fixture
def facts(make: SimpleNamespace) -> DecisionInputs:
    return make.facts({kind: make.state({}, {}, kind) for kind in ("fresh", "stale", "provisional", "silent")})


def test_data_are_fresh_for_three_intervals_since_the_last_change(facts: DecisionInputs, make: SimpleNamespace) -> None:
    until = fresh_until(facts)
    assert (until["fresh"], until["stale"]) == (make.now + 14.0, make.now)


@pytest.mark.parametrize("kind", ["provisional", "silent"])
def test_what_never_changed_is_never_fresh(facts: DecisionInputs, kind: str) -> None:
    assert fresh_until(facts)[kind] == NEVER_FRESH


@pytest.mark.parametrize("kind", ["fresh", "stale", "provisional", "silent"])
def test_all_at_once_agrees_with_one(facts: DecisionInputs, kind: str) -> None:
    assert freshness_of(kind, facts) == kind
    assert (fresh_until(facts)[kind] > facts.now) is (kind == "fresh")


def test_a_node_that_is_not_known_is_silent(facts: DecisionInputs) -> None:
    assert freshness_of("absent", facts) == "silent"
