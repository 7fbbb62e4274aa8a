"""The reference of TASPolicy has every field of the schema that is deployed."""

import re
from typing import Any

import yaml

from website.taspolicy_page import CRD, taspolicy_page


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
