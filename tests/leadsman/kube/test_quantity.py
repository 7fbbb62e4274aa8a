"""Kubernetes quantities, exact in every written form."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube.quantity import NANO, BadQuantity, format_quantity, from_float, parse, to_float


@pytest.mark.parametrize(
    ("written", "nanos"),
    [
        ("0", 0),
        ("12", 12 * NANO),
        ("1.5", 1_500_000_000),
        ("1.", NANO),
        (".5", 500_000_000),
        ("007", 7 * NANO),
        ("1500m", 1_500_000_000),
        ("5n", 5),
        ("3E", 3 * 10**18 * NANO),
        ("1Ki", 1024 * NANO),
        ("1.5Mi", 3 * 2**19 * NANO),
        ("1Ei", 2**60 * NANO),
        ("12e6", 12 * 10**6 * NANO),
        ("12e-3", 12_000_000),
        ("1e+2", 100 * NANO),
        ("18446744073709551616", 2**64 * NANO),
        ("1.2345", 1_234_500_000),
    ],
)
def test_every_form_has_its_exact_value(written: str, nanos: int) -> None:
    assert parse(written) == nanos


def test_finer_than_a_billionth_is_rounded_away_from_zero() -> None:
    assert parse("0.9n") == 1
    assert parse("-0.1n") == -1
    assert parse("1.0000000001") == NANO + 1


def test_a_binary_quantity_is_capped_as_kubernetes_does() -> None:
    assert parse("8Ei") == (2**63 - 1) * NANO
    assert parse("-9Ei") == -(2**63 - 1) * NANO


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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_no_number_is_no_quantity(value: float) -> None:
    assert from_float(value) is None


def test_0_1_is_100m_and_integers_need_no_float() -> None:
    assert from_float(0.1) == parse("100m")
    assert from_float(2**60) == 2**60 * NANO
    assert to_float(parse("1500m")) == 1.5
