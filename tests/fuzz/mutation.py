"""Changes of a JSON or YAML-like text that bytes alone rarely make: what is hostile stands where a value stood.

The decoders are compiled and give no coverage, so most random bytes would end at the first comma.
"""

import json
from random import Random
from typing import Any

HOSTILE = (
    b"null", b"true", b"0", b"-1", b"1e999", b"NaN", b"-Infinity", b"9" * 25, b"9" * 5000, b"0.1", b'""', b'"\\ud800"',
    b'"\xff"', b'"\\u0000"', b'"' + b"a" * 300 + b'"', b"[]", b"{}", b"[" * 2000, b'{"a":' * 1200, b"[null]",
    b'{"":null}', b'{"a":1,"a":2}', b'"2026-01-31T00:00:00"', b'"0001-01-01T00:00:00Z"', b'"1e9"', b'"\xe2\x80\xa8"',
    b"[" * 300 + b"]" * 300, b"[" * 970 + b"]" * 970, b"!!int x", b"!!bool x",
)  # fmt: skip

_MARK = "\0hostile\0"


def mutate_document(data: bytes, rng: Random) -> bytes | None:
    """The JSON document with one value replaced, removed, doubled or moved. None when it is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    containers = _containers(document)
    if not containers:
        return rng.choice(HOSTILE)
    chosen = rng.choice(containers)
    place: Any = rng.choice(list(chosen) if isinstance(chosen, dict) else range(len(chosen)))
    action = rng.randrange(4)
    if action == 0:
        del chosen[place]
    elif action == 1:
        other = rng.choice(containers)
        chosen[place] = other if all(each is not chosen for each in _containers(other)) else None
    elif action == 2 and isinstance(chosen, dict):
        chosen[rng.choice(["", "metadata", "name", "labels", "items", "\ud800", str(place).swapcase()])] = chosen[place]
    else:
        chosen[place] = _MARK
    try:
        return json.dumps(document).encode().replace(json.dumps(_MARK).encode(), rng.choice(HOSTILE), 1)
    except (ValueError, RecursionError):
        return None


def mutate_text(data: bytes, rng: Random) -> bytes:
    """The bytes with something hostile put in, or a piece of them repeated."""
    at, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    if rng.random() < 0.5:
        return data[:at] + rng.choice(HOSTILE) + data[end:]
    return data[:at] + data[at : min(end, at + 20)] * rng.choice((2, 50, 3000)) + data[end:]


def _containers(document: Any) -> list[Any]:
    """Returns all lists and objects that are not empty, the document first."""
    found, open_ = [], [document]
    while open_:
        each = open_.pop()
        if isinstance(each, dict | list) and each:
            found.append(each)
            open_ += each.values() if isinstance(each, dict) else each
    return found
