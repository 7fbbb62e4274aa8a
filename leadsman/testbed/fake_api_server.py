"""A fake Kubernetes API server that follows a script: it lists, watches and writes, and fails on demand.

    async with FakeApiServer() as api:
        api.put("/api/v1/namespaces/default/pods/web-0", {"spec": {"nodeName": "n1"}})
        api.fail("list", 429, retry_after_seconds=1)
        api.url

Any path of an API is served; objects are plain dicts. A strategic merge patch is applied as a merge patch: lists are
replaced. Pods cannot be resized: /api/v1 lists `pods` alone.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from aiohttp import web

from leadsman.testbed.api_objects import (
    ApiStatusError,
    LoggedChange,
    Object,
    ObjectPath,
    ObjectStore,
    object_selector,
    parse_path,
)

# A watch of the fake API server: the lines of one answer that goes on.


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


class RecordedRequest(NamedTuple):
    """One request that the server received. verb: list, watch, get, create, update, patch or delete."""

    verb: str
    path: str
    query: Mapping[str, str]
    token: str
    content_type: str
    accept: str
    body: Any


class _Failure(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]
    in_stream: bool


class FakeApiServer:
    """A server on a free loopback port, from entry to exit.

    requests: every request, the oldest first.
    token: requests with another token get 401; "": no authentication.
    slow_seconds: delay before each answer.
    page_items: largest page of a list that has a limit; a list without a limit is whole.
    host: address that it listens on.
    group_versions: paths at which discovery finds a version of an API.
    not_served: plurals of resources that get 404, as those of a CRD that is not installed.
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
        self.objects, self.token, self.slow_seconds, self.page_items = ObjectStore(), token, 0.0, 500
        self.requests: list[RecordedRequest] = []
        self._host, self._port, self._tls, self._on_write = host, port, tls, on_write
        self._failures = defaultdict[str, deque[_Failure | None]](deque)
        self._streams: list[WatchStream] = []
        self._denied: set[str] = set()
        self.not_served: set[str] = set()
        self.group_versions = {"/api/v1"}
        self._pages: dict[str, list[Object]] = {}
        self._responding = asyncio.Event()
        self._responding.set()

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls).start()
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._responding.set()
        self.end_watches()
        await self._runner.cleanup()

    @property
    def watches(self) -> int:
        """Number of open watches."""
        return len(self._streams)

    def verbs(self) -> Sequence[str]:
        return [asked.verb for asked in self.requests]

    # Objects.

    def put(self, path: str, body: Object) -> Object:
        """Creates or replaces the object at this path."""
        place = parse_path(path)
        found = self.objects.put(place, body)
        self._send_changes()
        return found

    def delete(self, path: str) -> None:
        self.objects.delete(parse_path(path))
        self._send_changes()

    # Scripted failures.

    def fail(
        self,
        verb: str,
        status: int,
        *,
        times: int = 1,
        retry_after_seconds: int | None = None,
        body: bytes | None = None,
        in_stream: bool = False,
    ) -> None:
        """Fails the next requests of this verb.

        body: answered in place of a Status.
        in_stream: a watch begins with 200 and its first line is an ERROR.
        """
        headers = {} if retry_after_seconds is None else {"Retry-After": str(retry_after_seconds)}
        said = json.dumps(failure_status(status, "Scripted", f"scripted {status}")).encode() if body is None else body
        self._failures[verb].extend([_Failure(status, said, headers, in_stream)] * times)

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
        for stream in self._streams:
            stream.send_line(line)

    def send_bookmarks(self) -> None:
        for stream in self._streams:
            stream.send_bookmark(self.objects.revision)

    def end_watches(self) -> None:
        """Ends open watches, as at their timeout."""
        for stream in self._streams:
            stream.end()

    def reset_watches(self, begun: bytes = b"") -> None:
        """Cuts open watches by TCP's RST, after the beginning of a line."""
        for stream in self._streams:
            stream.reset(begun)

    def silence(self) -> None:
        """Accepts connections and keeps them open without an answer."""
        self._responding.clear()

    def heal(self) -> None:
        self._responding.set()

    # Answers.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in self.group_versions:
            version = request.path.removeprefix("/api/").removeprefix("/apis/")
            return _json({"kind": "APIResourceList", "groupVersion": version, "resources": [{"name": "pods"}]})
        try:
            place, watch = parse_path(request.path), request.query.get("watch") in ("1", "true")
            verb = _verb(request.method, place, watch)
            asked = await _recorded_request(verb, request)
            self.requests.append(asked)
            await asyncio.sleep(self.slow_seconds)
            await self._responding.wait()
            self._authorize(request, place)
            return await self._answered(asked, place, request)
        except ApiStatusError as refused:
            return _json(failure_status(refused.status, refused.reason, str(refused)), refused.status)

    def _authorize(self, request: web.BaseRequest, place: ObjectPath) -> None:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise ApiStatusError(401, "Unauthorized", "Unauthorized")
        plural = place.collection.rpartition("/")[2]
        if plural in self.not_served:
            raise ApiStatusError(404, "NotFound", "404 page not found")
        if plural in self._denied:
            raise ApiStatusError(403, "Forbidden", f'{plural} is forbidden: cannot access resource "{plural}"')

    async def _answered(
        self, asked: RecordedRequest, place: ObjectPath, request: web.BaseRequest
    ) -> web.StreamResponse:
        verb = asked.verb
        failure = self._failures[verb].popleft() if self._failures[verb] else None
        if failure and not failure.in_stream:
            return web.Response(
                status=failure.status, body=failure.body, headers=failure.headers, content_type="application/json"
            )
        if verb == "watch":
            return await self._watch(place, request, failure)
        if verb == "list":
            return _json(self._list(place, request.query))
        answer = self._write(verb, place, asked.body)
        if verb != "get":
            self._on_write(asked, answer)
        self._send_changes()
        return _json(answer, 201 if verb == "create" else 200)

    def _write(self, verb: str, place: ObjectPath, body: Any) -> Object:
        if place.subresource == "binding":
            return self._bind(place, body)
        if place.subresource == "eviction":
            return self._evict(place, body)
        if verb == "get":
            return self.objects.get(place)
        if verb == "delete":
            return self.objects.delete(place, ((body or {}).get("preconditions") or {}).get("uid", ""))
        write = {"create": self.objects.create, "update": self.objects.replace, "patch": self.objects.patch}[verb]
        return write(place, body)

    def _bind(self, place: ObjectPath, binding: Object) -> Object:
        pod = self.objects.get(place)
        if (pod.get("spec") or {}).get("nodeName"):
            raise ApiStatusError(
                409, "Conflict", f"pod {place.name} is already assigned to node {pod['spec']['nodeName']!r}"
            )
        self.objects.patch(place, {"spec": {"nodeName": binding["target"]["name"]}})
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _evict(self, place: ObjectPath, eviction: Object) -> Object:
        """As one that no budget refuses, of a pod that ends at once."""
        uid = ((eviction.get("deleteOptions") or {}).get("preconditions") or {}).get("uid", "")
        self.objects.delete(place._replace(subresource=""), uid)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _list(self, place: ObjectPath, query: Mapping[str, str]) -> Object:
        token = query.get("continue", "")
        if token and token not in self._pages:
            raise ApiStatusError(410, "Expired", "The provided continue parameter is too old")
        items = self._pages[token] if token else self.objects.all(place, query_selector(query))
        revision = token.partition("/")[0] or str(self.objects.revision)
        limit = min(int(query["limit"]), self.page_items) if "limit" in query else len(items)
        meta = {"resourceVersion": revision}
        if len(items) > limit:
            meta["continue"] = f"{revision}/{len(self._pages)}"
            self._pages[meta["continue"]] = items[limit:]
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items[:limit]}

    async def _watch(self, place: ObjectPath, request: web.BaseRequest, failure: _Failure | None) -> web.StreamResponse:
        began = int(request.query.get("resourceVersion") or self.objects.revision)
        stream = WatchStream(place, request, began)
        if failure:
            stream.send_line(event_line("ERROR", json.loads(failure.body)))
            stream.end()
        else:
            stream.send_changes(self.objects.changes_since(began))
        self._streams.append(stream)
        try:
            return await stream.serve(self._responding)
        finally:
            self._streams.remove(stream)

    def _send_changes(self) -> None:
        for stream in self._streams:
            stream.send_changes(self.objects.log)


async def _recorded_request(verb: str, request: web.BaseRequest) -> RecordedRequest:
    headers, text = request.headers, await request.text()
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    return RecordedRequest(
        verb,
        request.path,
        dict(request.query),
        token,
        headers.get("Content-Type", ""),
        headers.get("Accept", ""),
        json.loads(text) if text else None,
    )


def _verb(method: str, place: ObjectPath, watch: bool) -> str:
    if method == "GET":
        return "watch" if watch else "get" if place.name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]


def _json(body: Object, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


T = TypeVar("T")

_PATIENCE_SECONDS = 10.0


class ApiServerThread:
    """A FakeApiServer on a thread of its own, for callers that are not asynchronous. options: of FakeApiServer."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake API server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._wait(self._started())
        self.url = self._server.url
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_SECONDS)
        self._loop.close()

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.call(lambda server: server.put(path, body))

    def delete(self, path: str) -> None:
        self.call(lambda server: server.delete(path))

    def call(self, work: Callable[[FakeApiServer], T]) -> T:
        async def done() -> T:
            return work(self._server)

        return self._wait(done())

    async def _started(self) -> FakeApiServer:
        return await FakeApiServer(**self._options).__aenter__()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE_SECONDS)
