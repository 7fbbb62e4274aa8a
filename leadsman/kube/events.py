"""Events: Warnings about one pod read, and those that we write.

Written is events.k8s.io/v1, which needs fewer rights than the old kind and is shown by kubectl alike. Who writes them
sees to it that the same thing is not told over and over: the API server keeps every one for an hour.
"""

from datetime import datetime
from typing import Any

from msgspec import Struct

from leadsman.kube.client import ApiClient
from leadsman.kube.objects import Event, ObjectMeta, ObjectReference
from leadsman.kube.resources import CORE_EVENTS

MAX_EVENTS_READ = 500
"""One each 10 s for the hour that they are kept, and some."""

LONGEST_NOTE_BYTES = 1024
"""The API server refuses more."""

_LONGEST_REASON = 128


class _Events(Struct, frozen=True):
    items: tuple[Event, ...] = ()


async def warnings_about(client: ApiClient, about: ObjectMeta) -> tuple[Event, ...]:
    """Warning Events whose involved object has this UID, at most MAX_EVENTS_READ. ApiError."""
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
    """For Client.create at EVENTS_V1.path(namespace), with the namespace of what it is about, or "default".

    reason and action: words in CamelCase, why and what was done or tried. at: with a time zone. controller:
    as names.REPORTING_CONTROLLER; instance: which process. name: of what is told once, whoever tells it; "": its own.
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
