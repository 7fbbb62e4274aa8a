"""The reference pages have what the code and the CRD have, and the navigation names pages that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from extender.api.app import PREFIX, ROUTES, openapi_document
from leadsman.decision.policy import Policy
from leadsman.state import keys
from website import reference_pages
from website.api_page import api_page
from website.links import PROJECT_PAGES
from website.metrics_page import metric_families
from website.taspolicy_page import CRD, taspolicy_page

DOCS = Path(__file__).parents[2] / "docs"


def test_a_metric_has_one_family_with_the_type_unit_and_labels_of_the_code() -> None:
    families = {each.name: each for each in metric_families()}
    assert len(families) == len(metric_families()) > 200
    requests = families["leadsman_extender_request_duration_seconds"]
    assert (requests.kind, requests.unit, requests.labels) == ("histogram", "seconds", ("verb", "code"))
    assert "leadsman_extender_request_duration_seconds_bucket" in requests.series


def test_every_path_and_every_field_of_every_type_of_the_api_is_there() -> None:
    page = api_page()
    assert [route.path for route in ROUTES if f"| `{route.method} {PREFIX}{route.path}` |" not in page] == []
    sections = sections_of(page, "### ")
    for name, schema in openapi_document()["components"]["schemas"].items():
        assert [field for field in schema.get("properties", {}) if f"| `{field}` |" not in sections[name]] == []


def test_every_field_of_records_and_every_section_of_the_policy_is_there() -> None:
    sections = sections_of(reference_pages.records_page(), "## ")
    for record in keys.RECORD_BY_KIND.values():
        fields = record.__struct_fields__
        assert [field for field in fields if f"| `{field}` |" not in sections[record.__name__]] == []
    assert [name for name in Policy.__struct_fields__ if f"| `{name}` |" not in reference_pages.policy_page()] == []


def sections_of(page: str, mark: str) -> dict[str, str]:
    """Maps each heading to what stands below it."""
    return {name: text for name, _, text in (part.partition("\n") for part in page.split(f"\n{mark}")[1:])}


def test_every_field_of_the_crd_s_schema_is_there() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    named = set(re.findall(r"^\| `[\w.\[\]]*?(\w+)\*?` \|", taspolicy_page(), re.MULTILINE))
    assert {*property_names([schema["spec"], schema["status"]])} == named


def property_names(schema: Any) -> Iterator[str]:
    """Of all objects below, however deep."""
    if isinstance(schema, dict):
        yield from schema["properties"] if isinstance(schema.get("properties"), dict) else ()
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from property_names(each)


def test_the_navigation_names_pages_that_exist_and_every_page_but_that_of_features() -> None:
    settings = yaml.safe_load((DOCS.parent / "website/mkdocs.yml").read_text())
    pages = [page for part in settings["nav"] for each in part.values() for entry in each for page in entry.values()]
    written = {page for page in pages if not page.startswith("reference/")} - {*PROJECT_PAGES.values()}
    assert written == {path.name for path in DOCS.glob("*.md")} - {"features.md"}
