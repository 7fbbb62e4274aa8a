"""Makes reference pages from the code: commands, records in etcd, the policy file, names on Kubernetes objects."""

import argparse
import ast
import inspect
import json
import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from leadsman.cli.main import build_parser
from leadsman.decision import policy
from leadsman.kube import names
from leadsman.state import records
from website.markdown import code, paragraphs, table

_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "maxLength": "characters at most",
    "minLength": "characters at least",
    "maxItems": "items at most",
    "pattern": "matches",
}


def records_page() -> str:
    return "\n".join(
        ["# Records in etcd", "", paragraphs(records.__doc__), *_struct_sections(_structs(records, records.Record))]
    )


def policy_page() -> str:
    intro = "Every section and field of the policy file; what is left out has its default, what is unknown is refused."
    return "\n".join(["# Policy file", "", intro, "", *_struct_sections(_structs(policy, policy.PolicySection))])


def names_page() -> str:
    rows = [(name, code(value), text) for name, value, text in documented_names(names)]
    return "\n".join(["# Names on Kubernetes objects", "", *table(("name", "value", "means"), rows)])


def documented_names(module: ModuleType) -> Iterator[tuple[str, str, str]]:
    """Yields each constant of text with its docstring; one docstring after several stands for all of them."""
    body = ast.parse(inspect.getsource(module)).body
    waiting = list[str]()
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            waiting.append(node.targets[0].id)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for name in waiting:
                if isinstance(value := getattr(module, name), str):
                    yield name, value, " ".join(str(node.value.value).split())
            waiting = []
        else:
            waiting = []


def _structs(module: ModuleType, base: type[Struct]) -> list[type[Struct]]:
    """Returns those of the module, in its order: records and what they hold, but the base itself."""
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, Struct)
        and each.__module__ == module.__name__
        and each is not base
    ]


def _struct_sections(structs: list[type[Struct]]) -> Iterator[str]:
    _, components = msgspec.json.schema_components(structs)
    for struct in structs:
        yield from (f"## {struct.__name__}", "", paragraphs(struct.__doc__), "")
        properties = components[struct.__name__].get("properties", {})
        if properties:
            rows = [(code(name), type_of(schema), _default(schema)) for name, schema in properties.items()]
            yield from table(("field", "is", "default"), rows)


def type_of(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(type_of(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    kind = str(schema.get("type", "anything"))
    if kind == "array" and "items" in schema:
        kind = f"list of {type_of(schema['items'])}" if schema["items"] else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"object of {type_of(schema['additionalProperties'])}"
    limits = [f"{text} {schema[key]}" for key, text in _LIMITS.items() if key in schema]
    return ", ".join([kind, *limits])


def _default(schema: Mapping[str, Any]) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def commands_page() -> str:
    os.environ["COLUMNS"] = "110"  # argparse's width, as no terminal says one
    return "\n".join(
        ["# Commands and flags", "", "`kubectl leadsman` takes the same.", "", *_command_sections(build_parser({}))]
    )


def _command_sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the help of this command and of all below it."""
    yield from (f"## {parser.prog}", "", "```text", parser.format_help().rstrip("\n"), "```", "")
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _command_sections(each)
