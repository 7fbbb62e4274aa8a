"""Kubernetes quantities, exact in every written form."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube.quantity import NANO, BadQuantity, format_quantity, from_float, parse


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("0", 0),
        ("1.5", 1_500_000_000),
        (".5", 500_000_000),
        ("1500m", 1_500_000_000),
        ("5n", 5),
        ("1Ki", 1024 * NANO),
        ("1.5Mi", 3 * 2**19 * NANO),
        ("12e6", 12 * 10**6 * NANO),
        ("12e-3", 12_000_000),
        ("18446744073709551616", 2**64 * NANO),
        ("0.9n", 1),
        ("-0.1n", -1),
        ("1.0000000001", NANO + 1),
        ("8Ei", (2**63 - 1) * NANO),
        ("-9Ei", -(2**63 - 1) * NANO),
    ],
)
def test_every_form_has_its_exact_value_rounded_away_from_zero_and_capped_as_kubernetes_does(
    written: str, nanos: int
) -> None:
    assert parse(written) == nanos


@pytest.mark.parametrize(
    "written",
    [
        *["", " 1", "one", "1.2.3", "1ki", "1i", "--1", ".", "m", "1e", "1e999999999", "NaN", "\u0661", "9" * 65],
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(written: str) -> None:
    with pytest.raises(BadQuantity, match="is not a quantity; write one as Kubernetes does"):
        parse(written)


@given(st.integers(-(10**30), 10**30))
def test_text_is_read_back_as_the_same_quantity(nanos: int) -> None:
    assert parse(format_quantity(nanos)) == nanos


@given(st.floats(-1e15, 1e15))
def test_a_measured_number_is_its_shortest_decimal_form(value: float) -> None:
    found = from_float(value)
    assert found is not None
    assert abs(Decimal(found) / NANO - Decimal(repr(value))) <= Decimal(1) / NANO
    assert from_float(math.copysign(math.inf, value)) is None
