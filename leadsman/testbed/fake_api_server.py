"""Fakes a Kubernetes API server, which lists, watches and writes.

    with ApiServerThread(FakeApiServer()) as api:
        api.put("/api/v1/namespaces/default/pods/web-0", {"spec": {"nodeName": "n1"}})
        api.url

Any path of an API is served; objects are plain dicts. A strategic merge patch is applied as a merge patch: lists are
replaced. Pods cannot be resized: /api/v1 lists `pods` alone.
"""

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

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


class WatchStream:
    """Sends the lines of one open watch, an answer that goes on. sent_revision: up to which changes were sent."""

    def __init__(self, place: ObjectPath, request: web.BaseRequest, sent_revision: int):
        self.request, self.sent_revision = request, sent_revision
        self._place, self._selected = place, query_selector(request.query)
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()

    def send_changes(self, changes: Sequence[LoggedChange]) -> None:
        for logged in (one for one in changes if one.revision > self.sent_revision):
            self.sent_revision = logged.revision
            kind = self._kind(logged) if self._place.contains(logged.path) else ""
            if kind:
                self.send_line(event_line(kind, logged.last_state))

    def _kind(self, logged: LoggedChange) -> str:
        """Returns the event's type; "" for none. An object that leaves the selection counts as deleted."""
        was = logged.before is not None and self._selected(logged.before)
        now = logged.after is not None and self._selected(logged.after)
        return {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}.get((was, now), "")

    def send_line(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def end(self) -> None:
        self._lines.put_nowait(None)

    async def serve(self, speaking: asyncio.Event) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(self.request)
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(float(self.request.query.get("timeoutSeconds") or 3600)):
                while (line := await self._lines.get()) is not None:
                    await speaking.wait()
                    await answer.write(line)
        return answer


def query_selector(query: Mapping[str, str]) -> Callable[[Object], bool]:
    return object_selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))


def event_line(kind: str, one: Object) -> bytes:
    return json.dumps({"type": kind, "object": one}).encode() + b"\n"


def failure_status(code: int, reason: str, text: str) -> Object:
    described = {"status": "Failure", "message": text, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", **described}


class RecordedRequest(NamedTuple):
    """One request that the server received. verb: list, watch, get, create, update, patch or delete."""

    verb: str
    path: str
    query: Mapping[str, str]
    token: str
    content_type: str
    accept: str
    body: Any


class FakeApiServer:
    """Serves on a free loopback port, from entry to exit.

    host: address that it listens on.
    group_versions: paths at which discovery finds a version of an API.
    speaking: while it is not set, nothing is answered.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, port: int = 0, host: str = "127.0.0.1"):
        self.objects, self.group_versions, self.streams = ObjectStore(), {"/api/v1"}, list[WatchStream]()
        self._host, self._port, self._tls = host, port, tls
        self.speaking = asyncio.Event()
        self.speaking.set()

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls).start()
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.speaking.set()
        self.end_watches()
        await self._runner.cleanup()

    def put(self, path: str, body: Object) -> Object:
        """Creates or replaces the object at this path."""
        found = self.objects.put(parse_path(path), body)
        self._send_changes()
        return found

    def delete(self, path: str) -> None:
        self.objects.delete(parse_path(path))
        self._send_changes()

    def end_watches(self) -> None:
        """Ends open watches, as at their timeout."""
        for stream in self.streams:
            stream.end()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in self.group_versions:
            version = request.path.removeprefix("/api/").removeprefix("/apis/")
            return _json({"kind": "APIResourceList", "groupVersion": version, "resources": [{"name": "pods"}]})
        try:
            place, watch = parse_path(request.path), request.query.get("watch") in ("1", "true")
            asked = await _recorded_request(_verb(request.method, place, watch), request)
            return await self.answer(asked, place, request)
        except ApiStatusError as refused:
            return _json(failure_status(refused.status, refused.reason, str(refused)), refused.status)

    async def answer(self, asked: RecordedRequest, place: ObjectPath, request: web.BaseRequest) -> web.StreamResponse:
        """Returns the answer to a request. ApiStatusError refuses it."""
        if asked.verb == "watch":
            return await self._watch(place, request)
        if asked.verb == "list":
            return _json(self.listed(place, request.query))
        answer = self.write(asked, place)
        self._send_changes()
        return _json(answer, 201 if asked.verb == "create" else 200)

    def write(self, asked: RecordedRequest, place: ObjectPath) -> Object:
        """Reads or changes one object."""
        verb, body = asked.verb, asked.body
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
        """Evicts as if no budget refused it, and the pod ended at once."""
        uid = ((eviction.get("deleteOptions") or {}).get("preconditions") or {}).get("uid", "")
        self.objects.delete(place._replace(subresource=""), uid)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def listed(self, place: ObjectPath, query: Mapping[str, str]) -> Object:
        """Returns all objects there, whole: no page has a limit."""
        items, meta = self.objects.all(place, query_selector(query)), {"resourceVersion": str(self.objects.revision)}
        return {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}

    async def _watch(self, place: ObjectPath, request: web.BaseRequest) -> web.StreamResponse:
        began = int(request.query.get("resourceVersion") or self.objects.revision)
        stream = WatchStream(place, request, began)
        stream.send_changes(self.objects.changes_since(began))
        self.streams.append(stream)
        try:
            return await stream.serve(self.speaking)
        finally:
            self.streams.remove(stream)

    def _send_changes(self) -> None:
        for stream in self.streams:
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
S = TypeVar("S", bound=FakeApiServer)

_PATIENCE_SECONDS = 10.0


class ApiServerThread(Generic[S]):
    """Runs a server on a thread of its own, for callers that are not asynchronous."""

    def __init__(self, server: S) -> None:
        self._server, self.url = server, ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake API server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait(self._server.__aenter__())
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

    def call(self, work: Callable[[S], T]) -> T:
        async def done() -> T:
            return work(self._server)

        return self._wait(done())

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE_SECONDS)
