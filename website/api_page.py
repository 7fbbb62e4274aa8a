"""Makes the reference of the HTTP API from its OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from extender.api.app import openapi_document
from website.markdown import code, paragraphs, table
from website.reference_pages import type_of


def api_page() -> str:
    document = openapi_document()
    lines = [
        "# Paths and types of the API",
        "",
        "Made from the OpenAPI document, which each extender with a page serves at `/api/v1/openapi.json`.",
        "[The page and its API](../page.md#who-may-look) says who may ask. A star marks what must be given.",
        "",
        "## Paths",
        "",
        *table(("path", "takes", "answers", "says"), _operations(document["paths"])),
        "## Types",
        "",
    ]
    for name, schema in document["components"]["schemas"].items():
        rows = [(code(field), type_of(each)) for field, each in schema.get("properties", {}).items()]
        lines += [f"### {name}", "", paragraphs(schema.get("description")), ""]
        lines += table(("field", "is"), rows) if rows else [type_of(schema), ""]
    return "\n".join(lines)


def _operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            takes = [
                code(each["name"]) + "*" * each["required"]
                for each in operation.get("parameters", ())
                if each["in"] == "query"
            ]
            if "requestBody" in operation:
                takes.append(f"the body {_content_type(operation['requestBody'])}")
            status = next(iter(operation["responses"]))
            answer = _content_type(operation["responses"][status])
            yield code(f"{method.upper()} {path}"), ", ".join(takes), answer, operation["summary"]


def _content_type(body: Mapping[str, Any]) -> str:
    (content,) = body["content"].values()
    return type_of(content["schema"])
