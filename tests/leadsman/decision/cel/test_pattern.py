"""Regular expressions of rules: they match as another engine says, within a bounded number of states."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.decision.cel.pattern import MAX_GROUPS, MAX_KEPT, MAX_REPEATS, BadPattern, Pattern

PIECES = st.sampled_from([*"ab-.^$", r"\.", r"\d", r"\W", r"\s", "[ab]", "[^a-y]", "[a-]", r"[\d\]]", "[]a]", "(a|b|)"])
PATTERNS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0}", "{2,}"])),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(PATTERNS, st.text("ab-1. z\n", max_size=8))
def test_it_matches_what_the_standard_library_finds(pattern: str, text: str):
    """Of which `$` means the end of the text or before its last line's."""
    expected = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert Pattern(pattern).matches(text) == bool(expected)


@given(st.text("ab()[]{}|*+?^$.\\d-,12:", max_size=20))
def test_any_text_is_a_pattern_or_a_bad_one(text: str):
    with suppress(BadPattern):
        Pattern(text).matches("ab" * 10)


def test_a_pattern_that_backtracking_cannot_end_is_followed_in_one_pass():
    assert not Pattern("^(a*)*(a*)*(a*)*$").matches("a" * 10_000 + "b")


def test_what_is_kept_of_texts_is_bounded():
    pattern = Pattern("x$")
    assert not any(pattern.matches(chr(0x4E00 + number)) for number in range(3 * MAX_KEPT))
    assert pattern._kept == MAX_KEPT
    assert pattern.matches("x")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("a(", "got ( without )"),
        ("a)", "got ) without ("),
        ("*a", "got * with nothing before it"),
        ("a**", "got * after a repetition"),
        ("a{", "got {, which begins no repetition"),
        ("a{3,2}", f"got {{3,2}}, allowed repetitions up to {MAX_REPEATS}"),
        (f"a{{{MAX_REPEATS + 1}}}", f"allowed repetitions up to {MAX_REPEATS}"),
        ("((a{60}){60}){60}", "got a pattern of more than"),
        ("((){60}){60}", "got a pattern of more than"),
        ("(" * (MAX_GROUPS + 1), f"got groups deeper than {MAX_GROUPS}"),
        ("(?i)a", "got (?i, allowed characters"),
        ("(?=a)", "got (?="),
        (r"(a)\1", r"got \1, allowed characters"),
        (r"\bword", r"got \b"),
        ("[a", "got the end of the pattern"),
        ("[b-a]", "got a range that ends before it begins"),
        ("[[:alpha:]]", "got [: in a class"),
        (r"[\D]", r"got an opposite such as \D in a class"),
        ("a\\", "got the end of the pattern"),
    ],
)
def test_what_is_not_there_is_refused(pattern: str, error: str):
    with pytest.raises(BadPattern) as caught:
        Pattern(pattern)
    assert error in str(caught.value)
