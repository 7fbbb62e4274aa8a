"""Reads the Warning Events of a pod, and builds the Events that we write.

We write events.k8s.io/v1, which needs fewer rights than the core kind; kubectl shows both alike. The API server keeps
every Event for an hour, so the caller must not write the same one again and again.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.objects import Event, ObjectMeta, ObjectReference
from leadsman.kube.resources import CORE_EVENTS

MAX_EVENTS_READ = 500
"""More than one in 10 s for the hour that they are kept."""

LONGEST_NOTE_BYTES = 1024
"""The API server refuses more."""

_LONGEST_REASON = 128


class _Events(Struct, frozen=True):
    items: tuple[Event, ...] = ()


async def warnings_about(client: ApiClient, about: ObjectMeta) -> tuple[Event, ...]:
    """The Warning Events about the object with this UID, at most MAX_EVENTS_READ. ApiError."""
    query = {"fieldSelector": f"involvedObject.uid={about.uid},type=Warning", "limit": str(MAX_EVENTS_READ)}
    return (await client.get(CORE_EVENTS.path(about.namespace), _Events, query)).items


def event_body(
    about: ObjectReference,
    reason: str,
    note: str,
    *,
    at: datetime,
    controller: str,
    instance: str,
    action: str,
    warning: bool = False,
    api_version: str = "v1",
    name: str = "",
) -> dict[str, Any]:
    """The body of an Event, for ApiClient.create at EVENTS_V1.path(namespace).

    The namespace is that of the object it is about, or "default".

    reason: why, in CamelCase.
    action: what was done or tried, in CamelCase.
    at: with a time zone.
    controller: as names.REPORTING_CONTROLLER.
    instance: the process.
    name: of an Event that is written once, no matter which process writes it; "": a generated name.
    """
    regarding = {"kind": about.kind, "namespace": about.namespace, "name": about.name, "uid": about.uid}
    named = {"name": name} if name else {"generateName": f"{about.name[:200].rstrip('.')}-"}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {**named, "namespace": about.namespace or "default"},
        "eventTime": at.isoformat(timespec="microseconds"),
        "type": "Warning" if warning else "Normal",
        "reason": reason[:_LONGEST_REASON],
        "note": note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore"),
        "action": action,
        "reportingController": controller,
        "reportingInstance": instance[:128],
        "regarding": {"apiVersion": api_version} | {key: value for key, value in regarding.items() if value},
    }
