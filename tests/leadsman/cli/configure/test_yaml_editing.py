"""YAML edited in place: what is wanted is there, and nothing else has moved."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.cli.yaml_editing import ConfigureError, YamlEdit, apply_edits


@pytest.mark.parametrize(
    ("before", "put", "after"),
    [
        ("a: 1\n", YamlEdit(("b",), 2), "a: 1\nb: 2\n"),
        ("a: 1", YamlEdit(("b",), 2), "a: 1\nb: 2\n"),
        ("a: 1 # one\n# end\n", YamlEdit(("b",), 2), "a: 1 # one\nb: 2\n# end\n"),
        ("a: 1 # one\n", YamlEdit(("a",), 2), "a: 2 # one\n"),
        ("a:\n- x\n- y # why\n# end\nb: 1\n", YamlEdit(("a", 2), "z"), "a:\n- x\n- y # why\n- z\n# end\nb: 1\n"),
        ("a:\n    - x\n\nb: 1\n", YamlEdit(("a", 1), "z"), "a:\n    - x\n    - z\n\nb: 1\n"),
        ("a: [x, 'y']\n", YamlEdit(("a", 2), "--z=1"), "a: [x, 'y', --z=1]\n"),
        ("a: [\n  x,\n]\n", YamlEdit(("a", 1), "z"), "a: [\n  x, z,\n]\n"),
        ("a: [x]\n", YamlEdit(("a", 1), "p,q"), 'a: [x, "p,q"]\n'),
        ("a: []\nb: 1\n", YamlEdit(("a", 0), {"n": 1}), "a:\n  - n: 1\nb: 1\n"),
        ("a: null\n", YamlEdit(("a", 0), {"n": 1}), "a:\n  - n: 1\n"),
        ("a:\nb: 1\n", YamlEdit(("a", 0), {"n": 1}), "a:\n  - n: 1\nb: 1\n"),
        ("a:\nb: 1\n", YamlEdit(("a",), 5), "a: 5\nb: 1\n"),
        ("a: {b: 1}\n", YamlEdit(("a", "c"), True), 'a: {b: 1, "c": true}\n'),
        ("a:\n- n: 1\n  m: 2 # old\n- k\n", YamlEdit(("a", 0), {"n": 9}), "a:\n- n: 9 # old\n- k\n"),
        ("a:\n  t: |\n    x\n", YamlEdit(("b",), 1), "a:\n  t: |\n    x\nb: 1\n"),
    ],
)
def test_an_edit_is_the_one_change(before: str, put, after: str) -> None:
    assert apply_edits(before, 0, [put]) == after


def test_an_edit_that_would_change_more_is_refused() -> None:
    """Here the list is another one's too."""
    with pytest.raises(ConfigureError, match=r"b\.0: cannot be changed in place"):
        apply_edits("x: &x [1]\nb: *x\n", 0, [YamlEdit(("b", 0), {"k": 2})])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab :#-'\"{}[],&*!|>%@\n", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text("xyz", min_size=1), VALUES, min_size=1), VALUES, st.sampled_from([None, False, True]))
def test_whatever_stands_around_it_stays(around, value, flow) -> None:
    """In block, flow and mixed style; the lines from before are all there, in order."""
    before = yaml.safe_dump(around, default_flow_style=flow, sort_keys=False)
    after = apply_edits(before, 0, [YamlEdit(("new",), value)])
    assert yaml.safe_load(after) == around | {"new": value}
    if flow is False:
        assert after.startswith(before)
