"""Splits a checked expression into parts of one scope each, and joins the values of the parts over arrays.

    node.hardware["load1_per_cpu"] < 0.5 || pod.priority > 1000
    ───────────── part ───────────     ││   ───── part ──────
                                     joined

A part is computed where its source changes: for a node when the node reports, for the pod once a request.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from leadsman.decision.cel.checker import Apply, Constant, Expression, Read, Schema, check, reads
from leadsman.decision.cel.functions import (
    Function,
    Kind,
    Unknown,
    Value,
    Values,
    as_number,
    joined_and,
    joined_condition,
    joined_not,
    joined_or,
)
from leadsman.decision.cel.macros import expand
from leadsman.decision.cel.syntax import parse

Source = Any
"""What a scope's fields read."""

Evaluate = Callable[[Source], Value]
Join = Callable[[Sequence[Values]], Values]

_JOINED_LOGIC: dict[str, Callable[..., Values]] = {
    "&&": joined_and,
    "||": joined_or,
    "!": joined_not,
    "?:": joined_condition,
}


class Part(Struct, frozen=True):
    """A part of an expression that depends on one scope.

    value: of a source; Unknown. number: the same as it stands in an array, NaN where it is unknown.
    """

    text: str
    scope: str
    reads: frozenset[Read]
    value: Evaluate
    number: Callable[[Source], float]


class Program(Struct, frozen=True):
    """A compiled expression. join: the values of the parts, in their order → the value of the whole."""

    text: str
    kind: Kind
    parts: tuple[Part, ...]
    reads: frozenset[Read]
    join: Join

    def joined(self, values: Sequence[Values]) -> Values:
        with np.errstate(all="ignore"):  # A division by zero is infinite, as in CEL.
            return self.join(values)


def compile_expression(text: str, schema: Schema) -> Program:
    """The program of an expression. BadExpression."""
    expression = check(expand(parse(text), text), text, schema)
    parts = list[Part]()
    join = _split(expression, parts)
    return Program(expression.text, expression.kind, tuple(parts), reads(expression), join)


def evaluate(expression: Expression) -> Evaluate:
    """The value of an expression of one scope in a source, as CEL has it."""
    match expression:
        case Constant():
            constant = expression.value
            return lambda source: constant
        case Read():
            return _reader(expression)
        case Apply(function=None):
            return _LOGIC[expression.name](*map(evaluate, expression.arguments))
        case Apply():
            assert expression.function
            return _strict(expression.function.scalar, [*map(evaluate, expression.arguments)])


def _split(expression: Expression, parts: list[Part]) -> Join:
    """What joins the expression's parts, which are appended to `parts` unless they are there."""
    if not expression.scopes:
        constant = _number(expression.kind, evaluate(expression))(None)
        return lambda values: constant
    if len(expression.scopes) == 1:
        position = next((at for at, part in enumerate(parts) if part.text == expression.text), len(parts))
        if position == len(parts):
            parts.append(_part(expression))
        return lambda values: values[position]
    assert isinstance(expression, Apply)
    function: Function | None = expression.function
    joined = function.joined if function else _JOINED_LOGIC[expression.name]
    assert joined
    return _joining(joined, [_split(argument, parts) for argument in expression.arguments])


def _part(expression: Expression) -> Part:
    value, (scope,) = evaluate(expression), expression.scopes
    return Part(expression.text, scope, reads(expression), value, _number(expression.kind, value))


def _joining(joined: Callable[..., Values], arguments: Sequence[Join]) -> Join:
    return lambda values: joined(*(argument(values) for argument in arguments))


def _number(kind: Kind, value: Evaluate) -> Callable[[Source], float]:
    def number(source: Source) -> float:
        try:
            return as_number(kind, value(source))
        except Unknown:
            return math.nan

    return number


def _reader(read: Read) -> Evaluate:
    of = read.field.read
    if not read.field.is_map:
        return of
    key = read.path[-1]
    if read.is_presence:
        return lambda source: key in of(source)

    def value(source: Source) -> Value:
        try:
            return of(source)[key]
        except KeyError:
            raise Unknown(f"{read.text} is not there") from None

    return value


def _strict(scalar: Callable[..., Value], arguments: Sequence[Evaluate]) -> Evaluate:
    if len(arguments) == 2:
        first, second = arguments
        return lambda source: scalar(first(source), second(source))
    (only,) = arguments
    return lambda source: scalar(only(source))


def _absorbing(absorber: bool) -> Callable[[Evaluate, Evaluate], Evaluate]:
    """&& and ||: one side that decides is enough, whatever is unknown on the other."""

    def logic(left: Evaluate, right: Evaluate) -> Evaluate:
        def value(source: Source) -> Value:
            try:
                if left(source) is absorber:
                    return absorber
            except Unknown:
                if right(source) is absorber:
                    return absorber
                raise
            return right(source)

        return value

    return logic


def _condition(condition: Evaluate, chosen: Evaluate, otherwise: Evaluate) -> Evaluate:
    return lambda source: chosen(source) if condition(source) else otherwise(source)


_LOGIC: dict[str, Callable[..., Evaluate]] = {
    "&&": _absorbing(False),
    "||": _absorbing(True),
    "!": lambda operand: lambda source: not operand(source),
    "?:": _condition,
}
