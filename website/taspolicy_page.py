"""Makes the reference of TASPolicy from the schema of its CustomResourceDefinition."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from website.markdown import code, paragraphs, table
from website.reference_pages import type_of

CRD = Path(__file__).parents[1] / "daemonset/components/telemetry/crd.yaml"
SECTIONS = ("spec", "status")


def taspolicy_page() -> str:
    crd = yaml.safe_load(CRD.read_text())["spec"]
    (version,) = crd["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [
        "# TASPolicy",
        "",
        f"`apiVersion: {crd['group']}/{version['name']}`, `kind: {crd['names']['kind']}`, in a namespace.",
        paragraphs(schema["description"]),
        "[Telemetry policies](../telemetry-policies.md) has examples. `NAME` is any key, `[]` each item of a list;",
        "a star marks what must be there.",
        "",
    ]
    for section in SECTIONS:
        rows = [
            (code(path), type_of(_with_numeric_limit(field)), field.get("description", ""))
            for path, field in fields(section, schema["properties"][section])
        ]
        lines += [f"## {section}", "", *table(("field", "is", "means"), rows)]
    return "\n".join(lines)


def fields(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each field below, by its path, in the schema's order."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}{'*' * (name in required)}", field
        yield from fields(f"{path}.{name}", field)
    if "items" in schema:
        yield from fields(f"{path}[]", schema["items"])
    if "additionalProperties" in schema:
        yield from fields(f"{path}.NAME", schema["additionalProperties"])


def _with_numeric_limit(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A CustomResourceDefinition says by a boolean beside the minimum what newer schemas say by a number."""
    if schema.get("exclusiveMinimum") is not True:
        return schema
    others = {key: value for key, value in schema.items() if key != "minimum"}
    return others | {"exclusiveMinimum": schema["minimum"]}
