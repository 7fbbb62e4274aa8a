"""Parses YAML into plain data of bounded size, with errors that name the place in it.

A policy comes from a ConfigMap that many may edit. So no aliases (a few lines of them expand to gigabytes),
no depth that exhausts the stack, no size that exhausts memory, and no key twice, of which YAML would
silently keep the last. No tags such as !!int, whose constructors fail in ways of their own, and no text that
UTF-8 cannot hold, which no page could show.
"""

import re
from collections.abc import Callable, Iterable
from enum import Enum
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from msgspec import Meta, Struct, ValidationError, structs

from leadsman.runtime import decode_errors

T = TypeVar("T")

MAX_CHARACTERS = 65_536
MAX_DEPTH = 20

_MAX_SHOWN = 60
"""Characters of an offending value that an error repeats."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_FIELD = re.compile(r"(unknown|missing required) field (.*)", re.DOTALL)


class BadDocument(ValueError):
    """The text is not YAML, or more than is accepted; the message names line and column."""


_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TIMESTAMP_TAG, _TEXT_TAG = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:str"


class StrictLoader(yaml.SafeLoader):
    """A SafeLoader that refuses duplicate keys, and reads 1:30 and 2026-01-31 as text, as Kubernetes does.

    YAML 1.1 reads them as 90, in base 60, and as a date.
    """

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _TEXT_TAG if tag == _TIMESTAMP_TAG or (tag in _NUMBER_TAGS and ":" in value) else tag


def load(text: str, max_characters: int = MAX_CHARACTERS) -> object:
    """Returns the plain data of one YAML document; None for an empty one. Raises BadDocument."""
    if len(text) > max_characters:
        raise BadDocument(f"$: got {len(text):,} characters, allowed {max_characters:,}")
    return _read(text, lambda: yaml.load(text, Loader=StrictLoader), "$: ")


def load_all(text: str) -> list[Any]:
    """Returns the plain data of each YAML document; None for an empty one. Raises BadDocument."""
    return _read(text, lambda: list(yaml.load_all(text, Loader=StrictLoader)))


def _read(text: str, read: Callable[[], T], place: str = "") -> T:
    try:
        _check(yaml.parse(text, Loader=yaml.SafeLoader))
        return read()
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadDocument(f"{place}{error_text(error)}") from error


def _check(events: Iterable[yaml.Event]) -> None:
    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _yaml_error(f"got a nesting deeper than {MAX_DEPTH}", event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            raise _yaml_error(f"got the alias *{event.anchor}, allowed are plain values only", event.start_mark)
        if tag := getattr(event, "tag", None):
            raise _yaml_error(f"got the tag {tag[:_MAX_SHOWN]}, allowed are plain values only", event.start_mark)
        if isinstance(event, yaml.ScalarEvent) and _SURROGATE.search(event.value):
            raise _yaml_error("got half of a surrogate pair, allowed is text", event.start_mark)


def _mapping(loader: StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value in seen:
            raise _yaml_error(f"got {_shown(key.value)} twice, allowed once", key.start_mark)
        seen.add(str(key.value))
    return loader.construct_mapping(node, deep=True)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _yaml_error(what: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=mark)


def error_text(error: Exception) -> str:
    """Describes a YAML error by line, column and fault, and any other by its text, on one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


def validation_fault(error: ValidationError, plain: object, root: type[Struct]) -> tuple[str, str]:
    """Finds the path from "$" to what could not be converted to `root`, and says what is wrong: "got …, allowed …"."""
    fault = decode_errors.explain(error)
    value, kind = _walk(plain, root, fault.path)
    if field := _FIELD.search(fault.what):
        path = f"{fault.path}.{field[2][:_MAX_SHOWN]}"
        if field[1] == "unknown":
            return path, f"unknown field, allowed {_allowed(kind)}"
        allowed = _allowed(_field_type(kind, field[2]))
        return path, f"missing, allowed {allowed}" if allowed else "missing"
    allowed = _allowed(kind)
    if not allowed or (isinstance(value, dict) and _is(kind, Struct)):
        return fault.path, fault.what
    return fault.path, f"got {_shown(value)}, allowed {allowed}"


def _walk(value: Any, kind: Any, path: str) -> tuple[Any, Any]:
    """Returns the value at the path, and the type that it should have."""
    for step in decode_errors.steps(path):
        value = value[step]
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        kind = _field_type(kind, step) if isinstance(step, str) else get_args(kind)[0]
        if get_origin(kind) in (Union, UnionType):  # with None
            kind = get_args(kind)[0]
    return value, kind


def _field_type(kind: Any, name: str) -> Any:
    return next(field.type for field in structs.fields(kind) if field.encode_name == name)


def _allowed(kind: Any) -> str:
    if _is(kind, Struct):
        return "the fields " + ", ".join(kind.__struct_encode_fields__)
    if _is(kind, Enum):
        return ", ".join(str(member.value) for member in kind)
    return " ".join(_limits(meta) for meta in get_args(kind) if isinstance(meta, Meta))


def _limits(meta: Meta) -> str:
    if meta.le is not None:
        return f"a number {f'above {meta.gt:g}' if meta.ge is None else f'from {meta.ge:g}'} to {meta.le:g}"
    if meta.pattern is not None:
        return f"text that matches {meta.pattern}"
    return f"at most {meta.max_length}" if meta.max_length else ""


def _is(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
