"""The reference of the API has every path and type of its OpenAPI document."""

from extender.api.openapi import PREFIX, ROUTES, openapi_document
from website.api_page import api_page


def test_every_path_has_a_row_with_what_it_takes_and_answers() -> None:
    page = api_page()
    assert [route.path for route in ROUTES if f"| `{route.method} {PREFIX}{route.path}` |" not in page] == []
    assert "| `GET /api/v1/delays/within` | `node`*, `bound_ms`* | NodesWithin |" in page
    assert "| `POST /api/v1/measure` | the body MeasureRequest | MeasureResponse |" in page


def test_every_type_has_a_section_with_its_fields() -> None:
    sections = dict(section.split("\n", 1) for section in api_page().split("\n### ")[1:])
    for name, schema in openapi_document()["components"]["schemas"].items():
        assert [field for field in schema.get("properties", {}) if f"| `{field}` |" not in sections[name]] == []
