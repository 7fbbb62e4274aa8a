from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta, Struct

from leadsman.runtime.decode_errors import UNREADABLE, explain


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    labels: dict[str, str] = {}
    target: Annotated[int, Meta(ge=1)] = 1


class Document(Struct, frozen=True):
    name: str
    rules: list[Rule] = []


def fault(body: bytes, kind: Any = Document) -> str:
    with pytest.raises(UNREADABLE) as caught:
        msgspec.json.decode(body, type=kind)
    return str(explain(caught.value))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"name": 7}', "$.name: expected str, got int"),
        (b'{"name": "n", "rules": [{}, {"target": 0}]}', "$.rules[1].target: expected int >= 1"),
        (b'{"name": "n", "rules": [{"labels": {"a": 1}}]}', "$.rules[0].labels[...]: expected str, got int"),
        (b'{"name": "n", "rules": [{"goal": 1}]}', "$.rules[0]: object contains unknown field goal"),
        (b"{}", "$: object missing required field name"),
        (b"[]", "$: expected object, got array"),
        (b'{"name"', "$: input data was truncated"),
        (b"", "$: input data was truncated"),
        (b"<html>", "$: JSON is malformed: invalid character (byte 0)"),
    ],
)
def test_the_place_comes_first_and_then_what_stands_there(body: bytes, said: str) -> None:
    assert fault(body) == said


def test_bytes_that_are_no_text_and_nesting_without_an_end_are_explained_too() -> None:
    assert fault(b'"\xff"', str).startswith("$: ")
    assert fault(b"[" * 100_000, Any).startswith("$: ")
