"""Files and standard input → plain documents, read as kubectl reads them. Every error names its file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from leadsman.decision import yaml_document

STANDARD_INPUT = Path("-")


class BadInputFile(ValueError):
    """A file cannot be used. The text names the file, the place in it, the value and what is allowed."""


def display_name(file: Path) -> str:
    return "standard input" if file == STANDARD_INPUT else str(file)


def read_bytes(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise BadInputFile(f"{display_name(file)}: {error.strerror or error}") from error


def read_documents(file: Path) -> Sequence[Any]:
    """All documents but empty ones."""
    content = read_bytes(file)
    try:
        return [each for each in _documents(content.decode(), file.suffix) if each is not None]
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise BadInputFile(f"{display_name(file)}: {yaml_document.error_text(error)}") from error


def read_document(file: Path) -> Any:
    found = read_documents(file)
    if len(found) != 1:
        raise BadInputFile(f"{display_name(file)}: got {len(found)} documents, want one")
    return found[0]


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
