"""A watch of the fake API server: the lines of one answer that goes on."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from leadsman.testbed.api_objects import LoggedChange, Object, ObjectPath, object_selector


class WatchStream:
    """One open watch. sent_revision: the revision up to which changes were sent."""

    def __init__(self, place: ObjectPath, request: web.BaseRequest, sent_revision: int):
        self.sent_revision = sent_revision
        self._place, self._request, self._selected = place, request, query_selector(request.query)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._bookmarks = request.query.get("allowWatchBookmarks") in ("1", "true")

    def send_changes(self, changes: Sequence[LoggedChange]) -> None:
        for logged in (one for one in changes if one.revision > self.sent_revision):
            self.sent_revision = logged.revision
            kind = self._kind(logged) if self._place.contains(logged.path) else ""
            if kind:
                self.send_line(event_line(kind, logged.last_state))

    def _kind(self, logged: LoggedChange) -> str:
        """The event's type; "" for none. An object that leaves the selection counts as deleted."""
        was = logged.before is not None and self._selected(logged.before)
        now = logged.after is not None and self._selected(logged.after)
        return {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((was, now), "")

    def send_bookmark(self, revision: int) -> None:
        if self._bookmarks:
            self.send_line(
                event_line("BOOKMARK", {"metadata": {"resourceVersion": str(revision), "creationTimestamp": None}})
            )

    def send_line(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def end(self) -> None:
        self._lines.put_nowait(None)

    def reset(self, begun: bytes) -> None:
        transport = self._request.transport
        if transport is None:
            return
        transport.write(b"%x\r\n%s\r\n" % (len(begun), begun) if begun else b"")
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        asyncio.get_running_loop().call_later(0.05, transport.abort)  # RST discards what was not read

    async def serve(self, speaking: asyncio.Event) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(self._request)
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(float(self._request.query.get("timeoutSeconds") or 3600)):
                while (line := await self._lines.get()) is not None:
                    await speaking.wait()
                    await answer.write(line)
        return answer


def query_selector(query: Mapping[str, str]) -> Callable[[Object], bool]:
    return object_selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))


def event_line(kind: str, one: Object) -> bytes:
    return json.dumps({"type": kind, "object": one}).encode() + b"\n"


def failure_status(code: int, reason: str, text: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": text,
        "reason": reason,
        "code": code,
    }
