"""Regular expressions of rules: what RE2 refuses is said, and no pattern takes long."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.cel.pattern import BadPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^eu-", "eu-west", True),
        ("^eu-", "neu-", False),
        ("west$", "eu-west", True),
        (r"^\d{2}$", "07", True),
        ("(?i)EU", "eu-west", True),
        ("ü", "Zürich", True),
    ],
)
def test_it_is_found_anywhere_unless_anchored(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).matches(text) is found


@given(st.text("ab()[]{}|*+?^$.\\d-,12:", max_size=20))
def test_any_text_is_a_pattern_or_a_bad_one(text: str) -> None:
    with suppress(BadPattern):
        Pattern(text).matches("ab" * 10)


def test_a_pattern_that_backtracking_cannot_end_is_followed_in_one_pass() -> None:
    assert not Pattern("^(a*)*(a*)*(a*)*$").matches("a" * 10_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("a(", "missing ): a("),
        ("(?=a)", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("((a{60}){60}){60}", "invalid repetition size: {60}"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_re2_does_not_take_is_refused_with_its_words(pattern: str, error: str) -> None:
    with pytest.raises(BadPattern) as caught:
        Pattern(pattern)
    assert error in str(caught.value)
