"""What all responses share: pages of lists, and errors."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

NumberGrid = Sequence[Sequence[float | None]]
"""Rows of numbers; null where none is known."""


class ListPage(Struct, Generic[T], frozen=True):
    """A part of a list.

    next: the cursor of the next part; null: this is the last.
    total: items in all parts.
    """

    items: Sequence[T]
    next: str | None
    total: int


class ErrorDetail(Struct, frozen=True):
    """Why a request was refused.

    field: the parameter, header or field of the body; "" when it is none of these.
    value: what was given, shortened.
    allowed: what would be accepted.
    """

    field: str
    value: str
    allowed: str
    message: str


class ErrorBody(Struct, frozen=True):
    """The body of every response with a status from 400 on."""

    error: ErrorDetail


class ReasonCount(Struct, frozen=True):
    """How many nodes or decisions have one reason."""

    reason: str
    count: int


class Problem(Struct, frozen=True):
    """check: the health check that fails. severity: "error" or "warning". what_to_do: what ends it."""

    check: str
    severity: str
    text: str
    what_to_do: str


class NamedValue(Struct, frozen=True):
    """One number with its name; the unit is in the name."""

    name: str
    value: float


def reason_counts(counts: Mapping[str, int]) -> tuple[ReasonCount, ...]:
    """The most frequent first."""
    return tuple(ReasonCount(reason, count) for reason, count in sorted(counts.items(), key=lambda each: -each[1]))
