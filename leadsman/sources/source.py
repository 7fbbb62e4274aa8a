"""What all sources have in common."""

from asyncio import Event
from typing import Protocol, TypeVar

from leadsman.runtime.problem_log import ProblemLog

T_co = TypeVar("T_co", covariant=True)


class Source(Protocol[T_co]):
    """Has a newest value, which is replaced and never altered."""

    @property
    def current(self) -> T_co: ...


class ListedSource(Protocol):
    """A source that is listed once and followed from there on.

    loaded: set after the first listing.
    problem: why it is not followed now; before the first listing, why the last attempt failed.
    """

    @property
    def loaded(self) -> Event: ...
    @property
    def problem(self) -> ProblemLog: ...
