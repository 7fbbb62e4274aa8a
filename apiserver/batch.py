"""Lines of a watch, applied to a view. Pure."""

from typing import Generic, TypeVar

from msgspec import Raw, Struct

from apiserver import changes
from apiserver.changes import Change, Key, Object, key_of
from apiserver.decoding import decoded
from apiserver.errors import Garbled, Gone, Status, refusal
from apiserver.objects import Bare

T = TypeVar("T", bound=Object)


class Event(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: Raw


class Batch(Struct, Generic[T]):
    """Events applied to a view, and what that changed."""

    view: dict[Key, T]
    changes: list[Change[T]]
    kind: type[T]
    problems: list[str] = []

    def take(self, line: bytes, resume: str) -> str:
        """The resourceVersion to resume at after this line. Gone or another ApiError when the line says so."""
        event = decoded(line, Event)
        if event.type == "ERROR":
            status = decoded(event.object, Status)
            raise refusal(status.code, bytes(event.object))
        meta = decoded(event.object, Bare).metadata
        _ordered(resume, meta.resource_version)
        if event.type != "BOOKMARK":
            self._change(event, key_of(meta))
        return meta.resource_version or resume

    def _change(self, event: Event, key: Key) -> None:
        """An object that cannot be decoded stays as it was known, unless it is gone."""
        item = self._decoded(event.object)
        if event.type == "DELETED":
            self.changes += changes.removed(self.view, key, item)
        elif item is not None:
            self.changes += changes.put(self.view, item)

    def _decoded(self, raw: Raw) -> T | None:
        try:
            return decoded(raw, self.kind)
        except Garbled as error:
            self.problems.append(str(error))
            return None


def _ordered(before: str, now: str) -> None:
    """An API server whose etcd was restored from a backup goes on, silently, at versions that were seen before."""
    if before.isdecimal() and now.isdecimal() and int(now) < int(before):
        raise Gone(f"resourceVersion went back from {before} to {now}: the store was restored")
