"""What several pod types say of a node together, and several nodes of a rack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.rewards.posterior import SOUND_RATIO, Trials
from leadsman.rewards.shared_faults import (
    MAX_LOG_FACTOR,
    NODE_FAULT_RATIO,
    Accusation,
    SharedDoubt,
    accuse,
    shared_doubts,
)

RACK = ("a", "b", "c", "d")
STRONG = Accusation(MAX_LOG_FACTOR, 60.0)
ACCUSATIONS = st.builds(Accusation, st.floats(0, MAX_LOG_FACTOR), st.floats(0, 1e6))


def test_a_failure_of_what_fails_everywhere_accuses_nobody() -> None:
    assert accuse(Trials(recent=1.0, failed=1.0), 0.5, 60.0) is None


def test_one_type_proves_nothing_alone_however_often_it_fails() -> None:
    found = accuse(Trials(failed=1_000.0), 0.98, 60.0)
    assert found is not None
    assert found.log_factor == MAX_LOG_FACTOR
    assert shared_doubts("web", {"db": {"a": found}}, ())["a"].fault_ratio < 0.5


def test_a_failure_that_has_faded_warns_nobody() -> None:
    assert shared_doubts("web", {"db": {"a": Accusation(0.5, 9_000.0)}}, ()) == {}


def test_three_types_prove_it() -> None:
    by_type = {name: {"a": STRONG} for name in ("db", "cache", "log")}
    assert shared_doubts("web", by_type, ())["a"].fault_ratio > 0.95


def test_a_type_s_own_failures_do_not_count_twice() -> None:
    assert shared_doubts("web", {"web": {"a": STRONG}}, ()) == {}


def test_the_doubt_is_as_old_as_the_last_failure() -> None:
    by_type = {"db": {"a": STRONG}, "log": {"a": Accusation(1.0, 5.0)}}
    assert shared_doubts("web", by_type, ())["a"].age_seconds == 5.0


def test_one_node_puts_no_doubt_on_its_rack() -> None:
    by_type = {name: {"a": STRONG} for name in ("db", "cache", "log")}
    assert set(shared_doubts("web", by_type, [RACK])) == {"a"}


def test_two_do_and_three_do_more() -> None:
    two = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG}}, [RACK])
    three = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG, "c": STRONG}}, [RACK])
    assert set(two) == set(RACK)
    assert NODE_FAULT_RATIO < two["d"].fault_ratio < three["d"].fault_ratio
    assert three["d"].fault_ratio > 0.5


def test_another_rack_is_none_of_its_business() -> None:
    found = shared_doubts("web", {"db": {"a": STRONG, "b": STRONG}}, [("a", "x"), ("b", "y")])
    assert set(found) == {"a", "b"}


def test_without_a_doubt_the_prior_is_that_of_one_type() -> None:
    assert SharedDoubt(NODE_FAULT_RATIO, 0.0).sound_ratio == pytest.approx(SOUND_RATIO)


@given(st.dictionaries(st.sampled_from("tuvw"), st.dictionaries(st.sampled_from(RACK), ACCUSATIONS)))
def test_doubts_are_probabilities_and_never_below_the_prior(by_type: dict[str, dict[str, Accusation]]) -> None:
    for doubt in shared_doubts("t", by_type, [RACK]).values():
        assert NODE_FAULT_RATIO - 1e-9 <= doubt.fault_ratio <= 1.0
        assert 0.0 <= doubt.sound_ratio <= SOUND_RATIO + 1e-9
