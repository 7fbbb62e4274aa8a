"""Plain text in columns."""

import pytest

from leadsman.runtime import text_table


def test_a_reason_that_is_too_long_goes_on_below_its_row() -> None:
    rows = [["NODE", "REASON"], ["a", "near (by b's agent)"], ["edge-1", "delay to edge-1 over 25 ms"]]
    head, below = "NODE    REASON", ["edge-1", "    delay to edge-1", "    over 25 ms"]
    assert text_table.align_with_reason(rows, brief=True, width=20) == [head, "a       near", *below]
    whole = ["a", "    near (by b's", "    agent)"]
    assert text_table.align_with_reason(rows, brief=False, width=20) == [head, *whole, *below]


@pytest.mark.parametrize(
    ("value", "said"), [(0.0, "0"), (12.125, "12.12"), (0.0543, "0.0543"), (999.96, "1000"), (59_999.6, "60000")]
)
def test_a_number_has_four_digits_and_no_exponent(value: float, said: str) -> None:
    assert text_table.format_number(value) == said
