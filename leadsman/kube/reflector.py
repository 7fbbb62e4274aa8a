"""Keeps a view of the API server's objects current: lists, watches from there on, and resumes after every loss."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Generic, TypeVar

from leadsman.kube import listing, object_changes
from leadsman.kube.bounded_metadata import cut_fields
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Gone, NotFound, ResponseTooLarge, StreamSilent, Unavailable
from leadsman.kube.listing import ListOptions, ObjectList
from leadsman.kube.object_changes import ChangeType, HasMetadata, ObjectChange, ObjectKey, WatchBatch, object_key
from leadsman.kube.objects import ObjectIdentity
from leadsman.runtime.backoff import Backoff
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.problem_log import ProblemLog

T = TypeVar("T", bound=HasMetadata)

SILENCE_SECONDS = 75.0
"""The API server sends a bookmark about once a minute."""

LONGEST_PAUSE_SECONDS = 30.0
"""The pause between attempts grows up to this, for many followers that lose the API server together. The few that must
be quick pass less."""

RESUME_WITHIN_SECONDS = 60.0
"""A watch that was lost for longer begins with a list, and so does one that was silent twice in a row: an API server
whose etcd was restored from a backup sends nothing until it is past the version that it had sent before."""

_WATCH_SECONDS = (240, 480)  # Spread, so that watches do not end together; client-go's are 300 to 600.
_NOT_IN_CACHE = (410, 504)  # Too old, or newer than the cache ("Too large resource version").
_FIRST_PAUSE_SECONDS = 0.5
_SHORTEST_WATCH_SECONDS = 1.0

log = logging.getLogger(__name__)

_cut_log = logging.getLogger(f"{__name__}.cut")
_cut_log.addFilter(LogLimit())


class Reflector(Generic[T]):
    """Keeps a view of some objects. `run` it as one task; readers take `current`.

    The view stays as it is while the API server is away: a list that fails never means that nothing exists.

    on_changes: called with what a batch changed, after `current` has it, and before `loaded` is set the first time.
    cached: lists come from the API server's cache (listing.list_from_cache).
    silence_seconds: a watch without a byte for this long is opened again.
    clock: monotonic seconds, as readers pass to `age_seconds`.
    loaded: set after the first list.
    last_response_at: when the API server last sent anything, by the clock; -inf before the first.
    relists, reconnects, decode_error_count: complete lists, watches opened again, objects that could not be decoded.
    cut_count: versions of objects of whose labels or annotations some are not kept (`bounded_metadata`).
    errors: name → how often a list or watch failed with it.
    problem: why the objects are not followed now.
    is_served: False while the API server answers that it has no such resource: its CRD is not installed.
    """

    def __init__(
        self,
        client: ApiClient,
        options: ListOptions,
        kind: type[T],
        *,
        on_changes: Callable[[Sequence[ObjectChange[T]]], None] = lambda _: None,
        cached: bool = False,
        silence_seconds: float = SILENCE_SECONDS,
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ):
        self._view: dict[ObjectKey, T] = {}
        self._version, self._shown = 0, (0, MappingProxyType[ObjectKey, T]({}))
        self.loaded, self.is_served = asyncio.Event(), True
        self.relists, self.reconnects, self.decode_error_count, self.cut_count = 0, 0, 0, 0
        self.errors: Counter[str] = Counter()
        self.list_options, self._client, self._kind = options, client, kind
        self.problem = ProblemLog(
            log,
            f"cannot watch {options.resource.plural}; the last list stays in use until the API server answers",
            f"{options.resource.plural} are watched again",
        )
        self._on_changes, self._clock, self._rng = on_changes, clock, rng or random.Random()
        self._silence_seconds, self._longest_pause_seconds = silence_seconds, longest_pause_seconds
        self._resume_within_seconds = silence_seconds + RESUME_WITHIN_SECONDS
        self._cached, self._cache_failed = cached, False
        self._resume, self._newest = "", ""
        self.last_response_at, self._opened_at = float("-inf"), float("inf")
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, longest_pause_seconds, self._rng)
        self._silences, self._retry_after_seconds = 0, 0.0

    @property
    def current(self) -> Mapping[ObjectKey, T]:
        """Returns the view, which is replaced and never altered. It is copied at the first read after a change, as
        on_changes needs no copy."""
        version, shown = self._version, self._shown
        if shown[0] != version:
            self._shown = shown = (version, MappingProxyType(self._view.copy()))
        return shown[1]

    @property
    def object_count(self) -> int:
        """Counts the objects in the view."""
        return len(self._view)

    def get(self, key: ObjectKey) -> T | None:
        """Returns one object of the view; None when it is not there."""
        return self._view.get(key)

    def age_seconds(self, now: float) -> float:
        """Returns seconds since the API server last sent an event, a bookmark or a list; infinite before."""
        return now - self.last_response_at

    async def run(self) -> None:
        """Follows until cancelled. An ApiError is logged and retried, anything else is raised."""
        while True:
            try:
                await self._follow()
            except ApiError as error:
                self._lost(error)
            await asyncio.sleep(self._retry_after_seconds + self._backoff.next_seconds())
            self.reconnects += 1

    async def _follow(self) -> None:
        """Lists if needed and watches until an error. A watch that ends at its timeout is continued at once."""
        if not self._resume or self.age_seconds(self._clock()) > self._resume_within_seconds:
            self._replace_view(await self._list())
        while True:
            await self._watch()
            if self._watched_seconds() < _SHORTEST_WATCH_SECONDS:
                raise Unavailable(f"API server closed the watch within {_SHORTEST_WATCH_SECONDS:g} s")
            self.reconnects += 1

    async def _list(self) -> ObjectList[T]:
        if not self._cached or self._cache_failed:
            return await listing.list_objects(self._client, self.list_options, self._kind)
        try:
            return await listing.list_from_cache(self._client, self.list_options, self._kind, self._newest or "0")
        except ResponseTooLarge:
            return await listing.list_objects(self._client, self.list_options, self._kind)
        except ApiError as error:
            self._cache_failed = error.status in _NOT_IN_CACHE
            raise

    def _replace_view(self, objects: ObjectList[T]) -> None:
        self._view, differences = object_changes.view_from_list(self._view, objects.items, objects.problems)
        self._cache_failed = False
        self._newest = self._resume = objects.resource_version
        self._count(list(objects.problems.values()))
        self._publish(differences)
        self.relists += 1
        self._record_response()
        self.loaded.set()

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resume,
            "timeoutSeconds": str(self._rng.randint(*_WATCH_SECONDS)),
        }
        async with self._client.stream(
            self.list_options.to_request(query, watch=True), self._silence_seconds
        ) as batches:
            self._record_response()
            self._opened_at = self._clock()
            async with aclosing(batches):
                async for lines in batches:
                    self._record_response()
                    self._silences = 0
                    self._apply(lines)

    def _apply(self, lines: Sequence[bytes]) -> None:
        """Applies the lines; those before an error count."""
        batch: WatchBatch[T] = WatchBatch(self._view, [], self._kind)
        try:
            for line in lines:
                self._resume = self._newest = batch.apply_line(line, self._resume)
        finally:
            self._count(batch.problems)
            if batch.changes:
                self._publish(batch.changes)

    def _publish(self, differences: Sequence[ObjectChange[T]]) -> None:
        self._version += 1
        for change in differences:
            if change.kind is not ChangeType.DELETED:
                self._count_cut(change.object.metadata)
        if differences:
            self._on_changes(differences)

    def _count(self, problems: Sequence[str]) -> None:
        if problems and not self.decode_error_count:
            log.warning(
                "cannot decode an object of %s, it is ignored: %s", self.list_options.resource.plural, problems[0]
            )
        self.decode_error_count += len(problems)

    def _count_cut(self, metadata: ObjectIdentity) -> None:
        for pairs in cut_fields(metadata):
            self.cut_count += 1
            plural, name = self.list_options.resource.plural, "/".join(filter(None, object_key(metadata)))
            what = pairs.excess or f"{pairs.cut} that Leadsman does not read are not kept"
            _cut_log.warning("%s %s has more than %d bytes of %s: %s", plural, name, pairs.max_bytes, pairs.field, what)

    def _record_response(self) -> None:
        self.last_response_at = self._clock()
        self.is_served = True
        self.problem.clear()

    def _lost(self, error: ApiError) -> None:
        """Reports the error. A watch that failed soon after it began is no recovery: the pauses grow."""
        if self._watched_seconds() > self._longest_pause_seconds:
            self._backoff.reset()
        self._opened_at = float("inf")
        self._retry_after_seconds = error.retry_after_seconds or 0.0
        self._silences = self._silences + 1 if isinstance(error, StreamSilent) else 0
        if isinstance(error, Gone) or self._silences > 1:
            self._resume = ""
        self.is_served = not isinstance(error, NotFound)
        self.errors[type(error).__name__] += 1
        if isinstance(error, StreamSilent):
            return  # Not a problem: some API servers send no bookmarks for a resource that never changes.
        self.problem.report(error)

    def _watched_seconds(self) -> float:
        """Since the watch was opened; negative while there is none."""
        return self._clock() - self._opened_at
