"""The web application of the API and the page: a listener of its own, never that of kube-scheduler or of /metrics."""

import contextlib
import gzip
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from aiohttp import hdrs, web

from extender.api import decisions, delays, nodes, overview, pairs, rewards
from extender.api.live import ChangeEvent, LiveState
from extender.api.requests import ErrorBody, RequestError, RequestGuard, Route, check_parameters
from extender.page.bundle import content_security_policy, document
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.version import VERSION

_log = logging.getLogger(__name__)

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LEAST_COMPRESSED_BYTES = 1024
LARGE_BYTES = 32 << 10
"""A response of this size or more is compressed on a thread: 1 MB of JSON takes 10 ms."""

API_HEADERS = {hdrs.CACHE_CONTROL: "no-cache", "X-Content-Type-Options": "nosniff"}


def create_api_app(live: LiveState) -> web.Application:
    """Builds the application of the API and the page. Run `live` beside it."""
    guard = RequestGuard()

    @web.middleware
    async def checked(request: web.Request, handler: _Handler) -> web.StreamResponse:
        guard.check(request)
        return await handler(request)

    async def page(request: web.Request) -> web.StreamResponse:
        """Serves the page, and has the delay history kept from the first time on."""
        live.keep_history()
        return await _response(request, "text/html; charset=utf-8", document(), page_headers)

    async def end_streams(_: web.Application) -> None:
        live.close()

    page_headers = {
        **API_HEADERS,
        "Content-Security-Policy": content_security_policy(),
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    app = web.Application(middlewares=[errors_as_json, checked])
    for route in ROUTES:
        app.router.add_route(route.method, PREFIX + route.path, _api_handler(route, live))
    app.router.add_get(f"{PREFIX}/openapi.json", _document)
    app.router.add_get(f"{PREFIX}/events", _events(live), allow_head=False)
    app.router.add_get("/", page)
    app.on_shutdown.append(end_streams)
    return app


def _api_handler(route: Route, live: LiveState) -> _Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        check_parameters(route, request.query)
        body = msgspec.json.encode(await route.handle(live, request))
        return await _response(request, "application/json", body, API_HEADERS, route.status)

    return answer


async def _document(request: web.Request) -> web.StreamResponse:
    """Made when it is asked for: most extenders never are."""
    return await _response(request, "application/json", msgspec.json.encode(openapi_document()), API_HEADERS)


async def _response(
    request: web.Request, content_type: str, body: bytes, headers: Mapping[str, str], status: int = 200
) -> web.Response:
    """Makes the response, with an ETag for a GET, and compressed where the client takes that."""
    fields = {**headers, hdrs.CONTENT_TYPE: content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
    if request.method == "GET":
        fields[hdrs.ETAG] = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        if fields[hdrs.ETAG] in _named_etags(request):
            return web.Response(status=304, headers=fields)
    if len(body) >= LEAST_COMPRESSED_BYTES and "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        fields[hdrs.CONTENT_ENCODING] = "gzip"
        body = await _compressed(body)
    return web.Response(status=status, body=body, headers=fields)


def _named_etags(request: web.Request) -> set[str]:
    return {each.strip().removeprefix("W/") for each in request.headers.get(hdrs.IF_NONE_MATCH, "").split(",")}


async def _compressed(body: bytes) -> bytes:
    def compress() -> bytes:
        return gzip.compress(body, compresslevel=1, mtime=0)

    return await run_in_daemon_thread(compress, "leadsman-api-gzip") if len(body) >= LARGE_BYTES else compress()


def _events(live: LiveState) -> _Handler:
    async def stream(request: web.Request) -> web.StreamResponse:
        # nginx would keep events until it has 4 KiB of them.
        headers = {**API_HEADERS, hdrs.CONTENT_TYPE: "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        async with live.open_stream() as events:
            await response.prepare(request)
            with contextlib.suppress(ConnectionResetError):
                async for event in events:
                    await response.write(event)
                await response.write_eof()
        return response

    return stream


@web.middleware
async def errors_as_json(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Returns what the handler returns, and turns each error that it raises into the contract's JSON."""
    try:
        return await handler(request)
    except RequestError as error:
        return _error_response(error)
    except web.HTTPException as error:
        allow = error.headers.get(hdrs.ALLOW)
        return _error_response(RequestError(error.status, error.reason), {hdrs.ALLOW: allow} if allow else {})
    except Exception as error:  # Most likely a plugin's: the reader sees it, and the server goes on.
        _log.exception("cannot answer %s", request.path)
        return _error_response(RequestError(503, f"{type(error).__name__}: {error}"))


def _error_response(error: RequestError, more: Mapping[str, str] | None = None) -> web.Response:
    headers = {**API_HEADERS, **(more or {}), hdrs.CONTENT_TYPE: "application/json"}
    return web.Response(status=error.status, body=msgspec.json.encode(error.body), headers=headers)


# Makes the OpenAPI document from the routes and their types. https://spec.openapis.org/oas/v3.1.0

PREFIX = "/api/v1"

ROUTES: Sequence[Route] = (
    *overview.ROUTES,
    *nodes.ROUTES,
    *delays.ROUTES,
    *pairs.ROUTES,
    *decisions.ROUTES,
    *rewards.ROUTES,
)
"""Every path of the API."""

_REFERENCE = "#/components/schemas/{name}"
_WHOLE_NUMBERS = ("limit", "row_offset", "column_offset", "rows", "columns")


def openapi_document() -> dict[str, Any]:
    """Returns the document as plain data."""
    bodies = [route.takes for route in ROUTES if route.takes]
    types = [ErrorBody, ChangeEvent, *(route.returns for route in ROUTES), *bodies]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, schema_of)
    paths[f"{PREFIX}/events"] = {"get": _events_operation(schema_of)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Leadsman", "version": VERSION, "summary": "What the extender sees and decides."},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _content("The answer.", "application/json", schema_of[str(route.returns)]),
            "default": _content("Why there is none.", "application/json", schema_of[str(ErrorBody)]),
        },
    }
    if route.takes:
        content = {"application/json": {"schema": schema_of[str(route.takes)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = re.findall(r"{(\w+)}", route.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in in_path]
    for name in route.query:
        kind = "integer" if name in _WHOLE_NUMBERS else "number" if name.endswith("_ms") else "string"
        is_required = name in route.required
        parameters.append({"name": name, "in": "query", "required": is_required, "schema": {"type": kind}})
    return parameters


def _events_operation(schema_of: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": "Server-sent events `change`; their data is a ChangeEvent.",
        "operationId": "get_events",
        "responses": {
            "200": _content("A stream without end.", "text/event-stream", schema_of[str(ChangeEvent)]),
            "default": _content("Why there is none.", "application/json", schema_of[str(ErrorBody)]),
        },
    }


def _content(description: str, content_type: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"schema": schema}}}
