"""The functions and operators of expressions: what they take, what they return, how they are computed.

Of single values by `scalar`, which raises Unknown where CEL has an error. Of arrays by `joined`, where a function may
join a node's values with a pod's: NaN is unknown there, a bool is 0 or 1, a string its hash, a quantity a number.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from string import ascii_lowercase
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.decision.cel import semver
from leadsman.decision.cel.syntax import MAX_INT
from leadsman.kube import quantity

Value = Any
"""A bool, int, float or str, of a quantity its nanos, of a version its key."""

Values = NDArray[np.float64] | float
"""An array over nodes, or one number for all of them; NaN is unknown."""

EXACT_INT = 2**53
"""Up to here every integer is a float of its own."""


class Unknown(Exception):
    """There is no value: something that is read is not there, or CEL has an error."""


class Kind(StrEnum):
    """The type of an expression."""

    BOOL = "bool"
    INT = "int"
    DOUBLE = "double"
    STRING = "string"
    QUANTITY = "quantity"
    SEMVER = "semver"


class Function(Struct, frozen=True):
    """One overload. joined: None: it takes values of a node or of a pod, never of both."""

    name: str
    parameters: tuple[Kind, ...]
    result: Kind
    scalar: Callable[..., Value]
    joined: Callable[..., Values] | None = None
    is_method: bool = False


def as_number(kind: Kind, value: Value) -> float:
    """A value as it stands in an array; NaN where it is not exact.

    Two strings of one hash would be taken for equal: once in 2⁵³ pairs, and Python's hash has a secret key.
    """
    if kind is Kind.STRING:
        return float(hash(value) >> 11)
    if kind is Kind.QUANTITY:
        return quantity.to_float(value)
    return math.nan if kind is Kind.INT and abs(value) > EXACT_INT else float(value)


def joined_and(left: Values, right: Values) -> Values:
    return np.where(np.equal(left, 0.0) | np.equal(right, 0.0), 0.0, np.multiply(left, right))


def joined_or(left: Values, right: Values) -> Values:
    return np.where(np.equal(left, 1.0) | np.equal(right, 1.0), 1.0, np.add(left, right))


def joined_not(operand: Values) -> Values:
    return np.subtract(1.0, operand)


def joined_condition(condition: Values, chosen: Values, otherwise: Values) -> Values:
    return np.where(np.isnan(condition), np.nan, np.where(np.equal(condition, 1.0), chosen, otherwise))


def _compared(compare: Callable[[Values, Values], Any], left: Values, right: Values) -> Values:
    return np.where(np.isnan(left) | np.isnan(right), np.nan, compare(left, right))


def _compare_to(left: Values, right: Values) -> Values:
    return _compared(lambda a, b: np.sign(np.subtract(a, b)), left, right)


def _int(value: int) -> int:
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise Unknown(f"{value} does not fit an int")
    return value


def _double(value: float) -> float:
    if math.isnan(value):
        raise Unknown("not a number")
    return value


def _divide_ints(left: int, right: int) -> int:
    """Toward zero, as CEL."""
    if right == 0:
        raise Unknown("division by zero")
    whole = abs(left) // abs(right)
    return _int(whole if (left < 0) == (right < 0) else -whole)


def _modulo(left: int, right: int) -> int:
    return left - right * _divide_ints(left, right)


def _divide_doubles(left: float, right: float) -> float:
    """As IEEE 754: infinite, where Python raises."""
    if right == 0.0:
        return _double(math.copysign(math.inf, left) * math.copysign(1.0, right) if left else math.nan)
    return _double(left / right)


_INT_TEXT = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_DOUBLE_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)


_UPPER = {ord(lower): lower.upper() for lower in ascii_lowercase}
_LOWER = {ord(lower.upper()): lower for lower in ascii_lowercase}


def _int_of_text(text: str) -> int:
    if not _INT_TEXT.fullmatch(text):
        raise Unknown(f"{text!r} is no int")
    return _int(int(text))


def _int_of_double(value: float) -> int:
    if not abs(value) < 2.0**63:
        raise Unknown(f"{value} does not fit an int")
    return int(value)


def _double_of_text(text: str) -> float:
    if len(text) > 64 or not _DOUBLE_TEXT.fullmatch(text):
        raise Unknown(f"{text!r} is no double")
    return float(text)


def _quantity(text: str) -> int:
    try:
        return quantity.parse(text)
    except quantity.BadQuantity as error:
        raise Unknown(str(error)) from error


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.BadQuantity:
        return False
    return True


def _semver(text: str) -> semver.SemverKey:
    try:
        return semver.parse(text)
    except semver.BadSemver as error:
        raise Unknown(str(error)) from error


def _is_semver(text: str) -> bool:
    try:
        semver.parse(text)
    except semver.BadSemver:
        return False
    return True


def _lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


def _upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


def _whole(nanos: int) -> int:
    whole, rest = divmod(nanos, quantity.NANO)
    if rest:
        raise Unknown("the quantity is no whole number")
    return _int(whole)


def _is_whole(nanos: int) -> bool:
    return nanos % quantity.NANO == 0 and abs(nanos // quantity.NANO) <= MAX_INT


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


_B, _I, _D, _S, _Q, _V = Kind.BOOL, Kind.INT, Kind.DOUBLE, Kind.STRING, Kind.QUANTITY, Kind.SEMVER

_NUMBERS = ((_I, _I), (_D, _D), (_I, _D), (_D, _I))

_ORDER: dict[str, tuple[Callable[[Value, Value], bool], Any]] = {
    "<": (operator.lt, np.less),
    "<=": (operator.le, np.less_equal),
    ">": (operator.gt, np.greater),
    ">=": (operator.ge, np.greater_equal),
}
_EQUALITY: dict[str, tuple[Callable[[Value, Value], bool], Any]] = {
    "==": (operator.eq, np.equal),
    "!=": (operator.ne, np.not_equal),
}
_ARITHMETIC: dict[str, tuple[Callable[[int, int], int], Callable[[float, float], float], Any]] = {
    "+": (operator.add, operator.add, np.add),
    "-": (operator.sub, operator.sub, np.subtract),
    "*": (operator.mul, operator.mul, np.multiply),
    "/": (_divide_ints, _divide_doubles, np.divide),
}


def _operators() -> Sequence[Function]:
    every = []
    for name, (compare, array) in (_ORDER | _EQUALITY).items():
        every += [Function(name, pair, _B, compare, partial(_compared, array)) for pair in _NUMBERS]
    for name, (compare, array) in _EQUALITY.items():
        every += [Function(name, (kind, kind), _B, compare, partial(_compared, array)) for kind in (_B, _S, _Q)]
    every += [Function(name, (_V, _V), _B, compare) for name, (compare, _) in _EQUALITY.items()]
    every += [Function(name, (_S, _S), _B, compare) for name, (compare, _) in _ORDER.items()]
    for name, (ints, doubles, array) in _ARITHMETIC.items():
        every.append(Function(name, (_I, _I), _I, _checked(_int, ints)))
        every.append(Function(name, (_D, _D), _D, _checked(_double, doubles), array))
    every += [
        Function("%", (_I, _I), _I, _modulo),
        Function("+", (_S, _S), _S, operator.add),
        Function("-", (_I,), _I, _checked(_int, operator.neg)),
        Function("-", (_D,), _D, operator.neg, np.negative),
    ]
    return every


def _checked(check: Callable[[Value], Value], of: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *arguments: check(of(*arguments))


_NAMED = (
    Function("size", (_S,), _I, len),
    Function("int", (_I,), _I, int),
    Function("int", (_D,), _I, _int_of_double),
    Function("int", (_S,), _I, _int_of_text),
    Function("double", (_D,), _D, float),
    Function("double", (_I,), _D, float),
    Function("double", (_S,), _D, _double_of_text),
    Function("quantity", (_S,), _Q, _quantity),
    Function("isQuantity", (_S,), _B, _is_quantity),
    Function("semver", (_S,), _V, _semver),
    Function("isSemver", (_S,), _B, _is_semver),
    Function("size", (_S,), _I, len, is_method=True),
    Function("lowerAscii", (_S,), _S, _lower_ascii, is_method=True),
    Function("upperAscii", (_S,), _S, _upper_ascii, is_method=True),
    Function("startsWith", (_S, _S), _B, str.startswith, is_method=True),
    Function("endsWith", (_S, _S), _B, str.endswith, is_method=True),
    Function("contains", (_S, _S), _B, operator.contains, is_method=True),
    Function("isGreaterThan", (_Q, _Q), _B, operator.gt, partial(_compared, np.greater), is_method=True),
    Function("isLessThan", (_Q, _Q), _B, operator.lt, partial(_compared, np.less), is_method=True),
    Function("compareTo", (_Q, _Q), _I, lambda a, b: _sign(a - b), _compare_to, is_method=True),
    Function("asApproximateFloat", (_Q,), _D, quantity.to_float, is_method=True),
    Function("asInteger", (_Q,), _I, _whole, is_method=True),
    Function("isInteger", (_Q,), _B, _is_whole, is_method=True),
    Function("sign", (_Q,), _I, _sign, is_method=True),
    Function("add", (_Q, _Q), _Q, operator.add, is_method=True),
    Function("sub", (_Q, _Q), _Q, operator.sub, is_method=True),
    Function("isGreaterThan", (_V, _V), _B, operator.gt, is_method=True),
    Function("isLessThan", (_V, _V), _B, operator.lt, is_method=True),
    Function("compareTo", (_V, _V), _I, lambda a, b: (a > b) - (a < b), is_method=True),
    Function("major", (_V,), _I, operator.itemgetter(0), is_method=True),
    Function("minor", (_V,), _I, operator.itemgetter(1), is_method=True),
    Function("patch", (_V,), _I, operator.itemgetter(2), is_method=True),
)
"""Of quantities and versions as Kubernetes has them: kubernetes.io/docs/reference/using-api/cel, "Kubernetes quantity
library" and "Kubernetes semver library"."""

FUNCTIONS: dict[tuple[str, bool], dict[tuple[Kind, ...], Function]] = {}
"""Name and whether it is a method → the types of what it takes → the function."""

for _each in (*_operators(), *_NAMED):
    FUNCTIONS.setdefault((_each.name, _each.is_method), {})[_each.parameters] = _each
