"""Explains why msgspec refused a document: where in it, and what stands there.

msgspec says "Expected `str`, got `int` - at `$.a.b`".
A reader looks for the place first: "$.a.b: expected str, got int".
"""

import re
from typing import NamedTuple

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)
"""Errors that decoding a stranger's bytes may raise: no document, not of this type; no UTF-8; nested without an end; a
number beyond 64 bits."""

_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `(?:key` in `)?(?P<path>\$[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class DecodeFault(NamedTuple):
    """Tells where a document is wrong and how. path: "$.rules[0].operator", "$" for the whole document; "[...]" stands
    for a key of a mapping. what: the fault, such as "expected str, got int"."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def explain(error: Exception) -> DecodeFault:
    """Finds path and fault in an error. error: one of UNREADABLE."""
    parts = _MESSAGE.fullmatch(str(error))
    assert parts, "everything matches"
    what = re.sub("^[A-Z](?=[a-z])", lambda first: first[0].lower(), parts["what"].replace("`", ""))
    return DecodeFault(parts["path"] or "$", what)


def steps(path: str) -> list[str | int]:
    """Splits a path into fields and positions: "$.rules[0].operator" → rules, 0, operator. They end at a mapping: which
    of its keys is meant is not in the path."""
    return [field or int(position) for field, position in _STEP.findall(path.partition("[...]")[0])]


_BYTE = re.compile(r" \(byte (\d+)\)")
_MAX_SHOWN = 60
"""Characters of an offending value that an error repeats."""


def explain_syntax(error: Exception, data: bytes) -> str:
    """Says why bytes are not JSON: by the line in place of msgspec's byte, which no editor shows, or else by their end.

    error: one of UNREADABLE. data: what was decoded.
    """
    at = _BYTE.search(str(error))
    before = data[: int(at[1])] if at else data
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return f"line {line}, column {column}: {_BYTE.sub('', str(error))}"


def explain_value(error: msgspec.ValidationError, plain: object) -> str:
    """Explains an error with the value that stands there, if the path leads to one. plain: the untyped document."""
    fault = explain(error)
    if "field" in fault.what or "[...]" in fault.path:
        return str(fault)
    for step in steps(fault.path):
        plain = plain[step]  # type: ignore[index]
    return f"{fault.path}: got {shown(plain)}; {fault.what}"


def shown(value: object) -> str:
    """Shows a value of a document in an error: as JSON, and not too long."""
    text = msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
