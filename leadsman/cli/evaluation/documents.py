"""Files and standard input → plain documents, read as kubectl reads them. Every error names its file."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from leadsman.decision import yaml_document

STANDARD_INPUT = Path("-")


class BadInputFile(ValueError):
    """A file cannot be used. The text names the file, the place in it, the value and what is allowed."""


class _JsonList(msgspec.Struct):
    """A List of Kubernetes, its items not decoded."""

    items: list[msgspec.Raw]


def display_name(file: Path) -> str:
    return "standard input" if file == STANDARD_INPUT else str(file)


def read_bytes(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise BadInputFile(f"{display_name(file)}: {error.strerror or error}") from error


def read_documents(file: Path) -> Sequence[Any]:
    """All documents but empty ones."""
    return _parsed(read_bytes(file), file)


def _parsed(content: bytes, file: Path) -> Sequence[Any]:
    try:
        return [each for each in _documents(content.decode(), file.suffix) if each is not None]
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise BadInputFile(f"{display_name(file)}: {yaml_document.error_text(error)}") from error


def read_document(file: Path) -> Any:
    return _one(read_documents(file), file)


def _one(found: Sequence[Any], file: Path) -> Any:
    if len(found) != 1:
        raise BadInputFile(f"{display_name(file)}: got {len(found)} documents, want one")
    return found[0]


def read_items(file: Path) -> Iterator[Any]:
    """The items of a List, or of a plain list. BadInputFile, also while iterating.

    In JSON they are decoded one at a time: 5,000 nodes are 97 MB of text, and three times that as objects.
    """
    content = read_bytes(file)
    try:
        raw = msgspec.json.decode(content, type=list[msgspec.Raw] | _JsonList)
    except (msgspec.DecodeError, RecursionError):  # It is YAML, or the slower way says what is wrong with it.
        yield from _plain_items(_one(_parsed(content, file), file), file)
        return
    for position, item in enumerate(raw if isinstance(raw, list) else raw.items):
        try:
            yield json.loads(bytes(item), object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            raise BadInputFile(f"{display_name(file)}: [{position}]: {yaml_document.error_text(error)}") from error


def _plain_items(document: Any, file: Path) -> Sequence[Any]:
    items = document.get("items") if isinstance(document, dict) else document
    if not isinstance(items, list):
        got = "no items" if items is None else type(items).__name__
        raise BadInputFile(
            f"{display_name(file)}: got {got}, want a list of names, or what `kubectl get nodes -o json` gives"
        )
    return items


def _documents(text: str, suffix: str) -> Sequence[Any]:
    """JSON is YAML, but for the tabs that may indent it."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text, object_pairs_hook=_unique_keys)]
        except json.JSONDecodeError:
            if suffix == ".json":
                raise
    return list(yaml.load_all(text, Loader=yaml_document.StrictLoader))


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"got {key[:60]!r} twice, allowed once")
        found[key] = value
    return found
