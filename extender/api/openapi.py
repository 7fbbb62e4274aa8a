"""Makes the OpenAPI document from the routes and their types. https://spec.openapis.org/oas/v3.1.0"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from extender.api import decisions, delays, nodes, overview, pairs, rewards
from extender.api.live import ChangeEvent
from extender.api.requests import ErrorBody, Route
from leadsman.runtime.version import VERSION

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
    paths[f"{PREFIX}/events"] = {"get": _events(schema_of)}
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


def _events(schema_of: dict[str, Any]) -> dict[str, Any]:
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
