"""`delay_<node>: "<ms>"` labels of a pod → bounds.

The name is exact and may have dots; the value is a plain decimal number. An exponent is refused: nobody
writes one on purpose, and a slip would move the bound by powers of ten.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

PREFIX = "delay_"

_MILLISECONDS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


class BadLabel(ValueError):
    """The label cannot be understood, so the pod fits nowhere. Names the label, its value and what is allowed."""


class Bound(Struct, frozen=True):
    """At most `ms` milliseconds of round trip between `reference`, a node, and the pod's node."""

    reference: str
    ms: float


def of(labels: Mapping[str, str]) -> tuple[Bound, ...]:
    """The bounds of a pod's labels, by reference; all must hold. Raises BadLabel."""
    return tuple(_bounds(labels)) if any(name.startswith(PREFIX) for name in labels) else ()


def readable(labels: Mapping[str, str]) -> tuple[Bound, ...]:
    """The bounds of labels that were judged before; none when one is bad, as then every node is refused."""
    try:
        return of(labels)
    except BadLabel:
        return ()


def _bounds(labels: Mapping[str, str]) -> Iterator[Bound]:
    for name in sorted(name for name in labels if name.startswith(PREFIX)):
        reference, value = name.removeprefix(PREFIX), labels[name]
        if not reference:
            raise BadLabel(f'label {name}: no node is named, want delay_<node>: "<ms>"')
        if not _MILLISECONDS.fullmatch(value):
            raise BadLabel(f'label {name}: got "{value}", want milliseconds such as "25" or "2.5"')
        yield Bound(reference, float(value))
