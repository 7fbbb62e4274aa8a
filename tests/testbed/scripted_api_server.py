"""The fake API server, which follows a script here: it keeps what it was asked, and fails on demand.

async with FakeApiServer() as api:
    api.fail("list", 429, retry_after_seconds=1)
"""

import asyncio
import json
import socket
import ssl
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from leadsman.testbed import fake_api_server
from leadsman.testbed.api_objects import ApiStatusError, Object, ObjectPath
from leadsman.testbed.fake_api_server import RecordedRequest, event_line, failure_status

__all__ = ["ApiServerThread", "FakeApiServer", "RecordedRequest"]


class FakeApiServer(fake_api_server.FakeApiServer):
    """requests: every request, the oldest first.
    token: requests with another token get 401; "": no authentication.
    slow_seconds: delay before each answer.
    page_items: largest page of a list that has a limit; a list without a limit is whole.
    on_write: called with each request that changed an object, and the object as it is then.
    """

    def __init__(
        self,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        on_write: Callable[[RecordedRequest, Object], None] = lambda *_: None,
    ):
        super().__init__(tls=tls, port=port, host=host)
        self.token, self.slow_seconds, self.page_items, self._on_write = token, 0.0, 500, on_write
        self.requests: list[RecordedRequest] = []
        self._failures = defaultdict[str, deque[web.Response | None]](deque)
        self._denied: set[str] = set()
        self._pages: dict[str, list[Object]] = {}

    @property
    def watches(self) -> int:
        """Number of open watches."""
        return len(self.streams)

    def verbs(self) -> Sequence[str]:
        return [asked.verb for asked in self.requests]

    def fail(
        self,
        verb: str,
        status: int,
        *,
        times: int = 1,
        retry_after_seconds: int | None = None,
        body: bytes | None = None,
    ) -> None:
        """Fails the next requests of this verb. body: answered in place of a Status."""
        headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
        said = json.dumps(failure_status(status, "Scripted", f"scripted {status}")).encode() if body is None else body
        for _ in range(times):
            failure = web.Response(status=status, body=said, headers=headers, content_type="application/json")
            self._failures[verb].append(failure)

    def fail_after(self, verb: str, good: int, status: int) -> None:
        """Fails one request of this verb, after the next `good` ones."""
        self._failures[verb].extend([None] * good)
        self.fail(verb, status)

    def deny(self, plural: str) -> None:
        """Forbids every request for this resource, as without a role."""
        self._denied.add(plural)

    def compact(self) -> None:
        """Answers 410 to watches from old versions and to lists that were begun."""
        self.objects.compact()
        self._pages.clear()

    def fail_watches(self, status: int) -> None:
        """Ends open watches with an ERROR."""
        self.send_line(event_line("ERROR", failure_status(status, "Expired", f"scripted {status}")))
        self.end_watches()

    def send_line(self, line: bytes) -> None:
        """Sends a line on every open watch, as it is."""
        for stream in self.streams:
            stream.send_line(line)

    def send_bookmarks(self) -> None:
        metadata = {"resourceVersion": str(self.objects.revision), "creationTimestamp": None}
        for stream in self.streams:
            if stream.request.query.get("allowWatchBookmarks") in ("1", "true"):
                stream.send_line(event_line("BOOKMARK", {"metadata": metadata}))

    def reset_watches(self, begun: bytes = b"") -> None:
        """Cuts open watches by TCP's RST, after the beginning of a line."""
        for transport in filter(None, (stream.request.transport for stream in self.streams)):
            transport.write(b"%x\r\n%s\r\n" % (len(begun), begun) if begun else b"")
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            asyncio.get_running_loop().call_later(0.05, transport.abort)  # RST discards what was not read

    def silence(self) -> None:
        """Accepts connections and keeps them open without an answer."""
        self.speaking.clear()

    def heal(self) -> None:
        self._failures.clear()
        self.speaking.set()

    async def answer(self, asked: RecordedRequest, place: ObjectPath, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(asked)
        await asyncio.sleep(self.slow_seconds)
        await self.speaking.wait()
        plural = place.collection.rpartition("/")[2]
        if self.token and asked.token != self.token:
            raise ApiStatusError(401, "Unauthorized", "Unauthorized")
        if plural in self._denied:
            raise ApiStatusError(403, "Forbidden", f'{plural} is forbidden: cannot access resource "{plural}"')
        failures = self._failures[asked.verb]
        return (failures.popleft() if failures else None) or await super().answer(asked, place, request)

    def write(self, asked: RecordedRequest, place: ObjectPath) -> Object:
        written = super().write(asked, place)
        if asked.verb != "get":
            self._on_write(asked, written)
        return written

    def listed(self, place: ObjectPath, query: Mapping[str, str]) -> Object:
        """The page that was asked for."""
        token = query.get("continue", "")
        if token and token not in self._pages:
            raise ApiStatusError(410, "Expired", "The provided continue parameter is too old")
        found = super().listed(place, query)
        if token:
            found |= {"items": self._pages[token], "metadata": {"resourceVersion": token.partition("/")[0]}}
        items, meta = found["items"], found["metadata"]
        limit = min(int(query["limit"]), self.page_items) if "limit" in query else len(items)
        if len(items) > limit:
            meta["continue"] = f"{meta['resourceVersion']}/{len(self._pages)}"
            self._pages[meta["continue"]] = items[limit:]
        return {**found, "items": items[:limit]}


class ApiServerThread(fake_api_server.ApiServerThread[FakeApiServer]):
    """options: of FakeApiServer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(FakeApiServer(**options))
