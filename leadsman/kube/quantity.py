"""Parses and formats Kubernetes quantities, exactly: as an int of billionths ("nanos"), Kubernetes' own resolution.

Syntax and bounds of ParseQuantity, in Go: k8s.io/apimachinery/pkg/api/resource/quantity.go. A number with n, u, m, k,
M, G, T, P, E, with Ki … Ei, or with a decimal exponent; what is finer is rounded away from zero.
"""

import re
from decimal import ROUND_UP, Context, Decimal
from math import isfinite

NANO = 1_000_000_000
"""Nanos of 1."""

_LARGEST_BINARY = (2**63 - 1) * NANO
"""Kubernetes silently caps binary quantities at this."""

LARGEST_AMOUNT = 1 << 50
"""Units of a resource: more than any node has, and 8,191 of them still add up to 63 bits."""

_LONGEST_TEXT = 64
_LARGEST_EXPONENT = 100
"""No metric has more digits, and 1e999999999 would exhaust the memory."""

_SUFFIX = r"([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,4})"
_QUANTITY = re.compile(rf"([+-]?)(?=\.?[0-9])([0-9]*\.?[0-9]*)(?:{_SUFFIX})?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_EXACT = Context(prec=400, rounding=ROUND_UP)


class BadQuantity(ValueError):
    """The text is not a quantity; the message says what it is and what is allowed."""


def parse(text: str) -> int:
    """Parses a quantity into nanos: "1500m" → 1_500_000_000. Raises BadQuantity."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    exponent = int(match[4] or 0) if match else 0
    if match is None or abs(exponent) > _LARGEST_EXPONENT:
        raise BadQuantity(
            f"{text[:_LONGEST_TEXT]!r} is not a quantity; write one as Kubernetes does: 12, 1.5, 1500m or 2Gi"
        )
    sign, digits, suffix = -1 if match[1] == "-" else 1, Decimal(match[2]), match[3] or ""
    if suffix in _BINARY:
        return sign * min(_nanos(_EXACT.multiply(digits, 2 ** _BINARY[suffix])), _LARGEST_BINARY)
    return sign * _nanos(digits.scaleb(_DECIMAL.get(suffix, exponent), _EXACT))


def whole_units(text: str, unit_nanos: int = NANO) -> int:
    """Parses an amount of an object, in units of so many nanos, rounded up; at most LARGEST_AMOUNT. BadQuantity."""
    return min(LARGEST_AMOUNT, -(-parse(text) // unit_nanos))


def from_float(value: float) -> int | None:
    """Turns a measured number into nanos by its shortest decimal form: 0.1 is 100m. None for NaN and the infinities."""
    if not isfinite(value):
        return None
    return int(value) * NANO if value == int(value) else _nanos(Decimal(repr(value)))


def format_quantity(nanos: int) -> str:
    """Writes the quantity as a plain decimal number: "1.5"."""
    whole, rest = divmod(abs(nanos), NANO)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' * (nanos < 0)}{whole}{fraction}"


def to_float(nanos: int) -> float:
    """Returns the quantity as a float, for people and charts; comparisons use the int."""
    return nanos / NANO


def _nanos(value: Decimal) -> int:
    return int(_EXACT.to_integral_value(_EXACT.scaleb(value, 9)))
