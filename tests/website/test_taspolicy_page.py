"""The reference of TASPolicy has every field of the schema that is deployed."""

import re
from typing import Any

import yaml

from website.taspolicy_page import CRD, fields, taspolicy_page


def property_names(schema: Any) -> set[str]:
    """Of all objects below, however deep."""
    if isinstance(schema, list):
        return set().union(*map(property_names, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(property_names, schema.values()))


def test_every_field_of_the_schema_is_a_row() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    named = set(re.findall(r"^\| `[\w.\[\]]*?(\w+)\*?` \|", taspolicy_page(), re.MULTILINE))
    assert property_names([schema["spec"], schema["status"]]) == named


def test_a_field_says_what_it_may_be_and_whether_it_must_be_there() -> None:
    page = taspolicy_page()
    assert '| `spec.strategies.NAME.rules[].operator*` | "Equals" or "LessThan" or "GreaterThan" |' in page
    assert "| `spec.metrics.maxAgeSeconds` | number, at most 86400, above 0 |" in page


def test_fields_are_found_through_lists_and_maps() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}, "required": ["b"]}}}}
    assert [path for path, _ in fields("spec", schema)] == ["spec.a", "spec.a[].b*"]
