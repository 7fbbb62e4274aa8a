"""Applies the lines of a watch to a view. Pure."""

import re
from typing import Generic, TypeVar

from msgspec import Raw, Struct

from leadsman.kube import object_changes
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import Gone, MalformedResponse, Status, error_from_response
from leadsman.kube.object_changes import HasMetadata, ObjectChange, ObjectKey, object_key
from leadsman.kube.objects import IdentifiedObject

T = TypeVar("T", bound=HasMetadata)


class WatchEvent(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: Raw


class WatchBatch(Struct, Generic[T]):
    """The events of some lines, applied to a view.

    view: altered by each line.
    changes: what the lines changed.
    problems: one text for each object that could not be decoded.
    """

    view: dict[ObjectKey, T]
    changes: list[ObjectChange[T]]
    object_type: type[T]
    problems: list[str] = []

    def apply_line(self, line: bytes, resume: str) -> str:
        """The resourceVersion to resume at after this line. Gone or another ApiError when the line says so."""
        event = decode_json(line, WatchEvent)
        if event.type == "ERROR":
            status = decode_json(event.object, Status)
            raise error_from_response(status.code, bytes(event.object))
        meta = decode_json(event.object, IdentifiedObject).metadata
        _check_version_order(resume, meta.resource_version)
        if event.type != "BOOKMARK":
            self._change(event, object_key(meta))
        return meta.resource_version or resume

    def _change(self, event: WatchEvent, key: ObjectKey) -> None:
        """An object that cannot be decoded stays as the view has it, unless it was deleted."""
        item = self._decoded(event.object)
        if event.type == "DELETED":
            self.changes += object_changes.apply_delete(self.view, key, item)
        elif item is not None:
            self.changes += object_changes.apply_put(self.view, item)

    def _decoded(self, raw: Raw) -> T | None:
        try:
            return decode_json(raw, self.object_type)
        except MalformedResponse as error:
            self.problems.append(str(error))
            return None


_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
"""A resourceVersion of etcd: 64 bits."""


def _check_version_order(before: str, now: str) -> None:
    """An API server whose etcd was restored from a backup silently repeats versions that it had sent before."""
    if _NUMBER.fullmatch(before) and _NUMBER.fullmatch(now) and int(now) < int(before):
        raise Gone(f"resourceVersion went back from {before} to {now}: the store was restored")
