"""Names and numbers come back exactly."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.sources.recording.packing import (
    NameNumbers,
    pack_codes,
    pack_floats,
    unpack_codes,
    unpack_floats,
    unpack_names,
)


@given(st.lists(st.text(min_size=1)), st.randoms())
def test_names_come_back_in_their_order(names: list[str], rng) -> None:
    numbers, table = NameNumbers(), list[str]()
    for each in (names, rng.sample(names, len(names))):
        table += numbers.add_new(each)
        assert unpack_names(numbers.pack(each), table) == each


@given(st.lists(st.floats(allow_nan=False) | st.floats(width=32, allow_nan=False)))
def test_numbers_come_back_exactly(values: list[float]) -> None:
    assert unpack_floats(pack_floats(values)) == values


def test_what_is_unknown_stays_unknown() -> None:
    assert math.isnan(unpack_floats(pack_floats([math.nan, 0.1]))[0])


def test_single_precision_takes_half() -> None:
    assert len(pack_floats([0.5, 0.25])) == 1 + 2 * 4
    assert len(pack_floats([0.1, 0.25])) == 1 + 2 * 8


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_codes_come_back(codes: list[int]) -> None:
    assert unpack_codes(pack_codes(codes)) == codes


def test_numbers_of_other_names_are_an_error() -> None:
    numbers = NameNumbers()
    numbers.add_new(["a", "b"])
    with pytest.raises(IndexError):
        unpack_names(numbers.pack(["b"]), ["only one"])
