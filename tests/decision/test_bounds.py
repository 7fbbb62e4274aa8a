"""Labels → bounds: exact names, plain decimal milliseconds, nothing guessed."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision import bounds
from decision.bounds import BadLabel, Bound


@pytest.mark.parametrize(("value", "ms"), [("25", 25.0), ("2.5", 2.5), ("0", 0.0), ("0.05", 0.05), ("007", 7.0)])
def test_a_plain_decimal_number_is_a_bound(value: str, ms: float) -> None:
    assert bounds.of({"delay_edge-1": value}) == (Bound("edge-1", ms),)


@pytest.mark.parametrize(
    "value", ["-1", "abc", "", "nan", "inf", "1e3", "+5", " 5", "5 ", "5\n", ".5", "5.", "1_000", "25ms", "٣", "0x5"]
)
def test_any_other_value_is_refused_with_label_and_value(value: str) -> None:
    with pytest.raises(BadLabel) as caught:
        bounds.of({"app": "x", "delay_edge-1": value})
    assert str(caught.value) == f'label delay_edge-1: got "{value}", want milliseconds such as "25" or "2.5"'


def test_a_label_that_names_no_node_is_refused() -> None:
    with pytest.raises(BadLabel, match="label delay_: no node is named"):
        bounds.of({"delay_": "5"})


def test_all_labels_count_and_dots_belong_to_the_name() -> None:
    labels = {"delay_b.example.com": "2", "app": "x", "delay_a": "1"}
    assert bounds.of(labels) == (Bound("a", 1.0), Bound("b.example.com", 2.0))


@pytest.mark.parametrize("name", ["delay", "Delay_edge", "x_delay_edge", "example.com/delay_edge", "my-delay_edge"])
def test_other_labels_are_not_ours(name: str) -> None:
    assert bounds.of({name: "abc"}) == ()


def test_readable_takes_a_bad_label_for_no_bounds() -> None:
    assert bounds.readable({"delay_a": "1", "delay_b": "x"}) == ()


@given(st.dictionaries(st.text(max_size=20).map(lambda name: f"delay_{name}"), st.text(max_size=70)))
def test_any_labels_are_bounds_or_a_bad_label(labels: dict[str, str]) -> None:
    with suppress(BadLabel):
        assert all(0 <= bound.ms < float("inf") for bound in bounds.of(labels))
