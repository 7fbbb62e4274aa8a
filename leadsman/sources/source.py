"""Defines what sources have in common: how they follow the API server, and a newest value."""

import time
from asyncio import Event, TaskGroup
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import HasMetadata, ObjectChange
from leadsman.kube.reflector import Reflector
from leadsman.runtime.problem_log import ProblemLog

T = TypeVar("T", bound=HasMetadata)
T_co = TypeVar("T_co", covariant=True)

MAX_BACKOFF_SECONDS = 4.0
"""Attempts are at most this far apart: what is followed is current within 10 s after the API server is back. Few
processes follow it."""


def follow(
    client: ApiClient,
    options: ListOptions,
    kind: type[T],
    on_changes: Callable[[Sequence[ObjectChange[T]]], None],
    clock: Callable[[], float] = time.monotonic,
) -> Reflector[T]:
    """Makes a list and watch that decisions wait for."""
    return Reflector(
        client, options, kind, on_changes=on_changes, longest_pause_seconds=MAX_BACKOFF_SECONDS, clock=clock
    )


async def run_all(reflectors: Iterable[Reflector[Any]]) -> None:
    """Follows all of them until cancelled; any error but an ApiError ends them all."""
    async with TaskGroup() as group:
        for each in reflectors:
            group.create_task(each.run(), name=f"watch {each.list_options.resource.plural}")


class Source(Protocol[T_co]):
    """Has a newest value, which is replaced and never altered."""

    @property
    def current(self) -> T_co: ...


class ListedSource(Protocol):
    """Is listed once and followed from there on.

    loaded: set after the first listing.
    problem: why it is not followed now; before the first listing, why the last attempt failed.
    """

    @property
    def loaded(self) -> Event: ...
    @property
    def problem(self) -> ProblemLog: ...
