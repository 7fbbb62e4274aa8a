"""A pod's labels `delay_<from>: "<ms>"` and its annotation `leadsman.dev/delay` → bounds.

Names are exact and may have dots; a value is a plain decimal number. An exponent is refused: nobody writes one on
purpose, and a slip would move the bound by powers of ten. What cannot be understood is never left out: it is BadBound.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct

from decision.model import Pod
from decision.policy import Estimate

PREFIX = "delay_"

LINES = "leadsman.dev/delay"
"""A bound a line: `<from>: <ms> [all|nearest] [accept|upper-bound|reject]`. Empty lines and `# ...` say nothing."""

REPLICAS = "leadsman.dev/delay-replicas"
ESTIMATE = "leadsman.dev/delay-estimate"
"""The pod's own defaults, for its labels and lines."""

MOST_BOUNDS = 32
MOST_CHARACTERS = 4096

_MOST_SHOWN = 63
_MILLISECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_FROM = re.compile(rf"(({_NAME}/)?[a-z][a-z0-9]*/)?{_NAME}")
_LINE = re.compile(r"([^\s:]+)\s*:\s*(\S+)((?:\s+\S+)*)")

Choice = TypeVar("Choice", bound=StrEnum)


class BadBound(ValueError):
    """A bound cannot be understood, so the pod fits nowhere. Names the place, what stands there and what is allowed."""


class Replicas(StrEnum):
    """Which placed pods of a workload the bound is to."""

    ALL = "all"
    """Each: a Service may send a request to any of them."""
    NEAREST = "nearest"
    """At least one: for clients that choose the nearest themselves."""


class Bound(Struct, frozen=True):
    """At most `ms` milliseconds of round trip between `reference` and the pod's node.

    reference: as written: `name`, `kind/name` or `namespace/kind/name`. estimate: None: the policy's.
    """

    reference: str
    ms: float
    replicas: Replicas = Replicas.ALL
    estimate: Estimate | None = None


def asked(pod: Pod) -> bool:
    """Whether the pod asks for a bound, well-formed or not."""
    return LINES in pod.annotations or any(label.startswith(PREFIX) for label in pod.labels)


def of(pod: Pod) -> tuple[Bound, ...]:
    """The bounds of a pod, all of which must hold: labels by name, then lines in order. Raises BadBound."""
    return _within_limits([*_labelled(pod), *_lines(pod)]) if asked(pod) else ()


def readable(pod: Pod) -> tuple[Bound, ...]:
    """The bounds of a pod that was judged before; none when one is bad, as then every node is refused."""
    try:
        return of(pod)
    except BadBound:
        return ()


def _within_limits(found: list[Bound]) -> tuple[Bound, ...]:
    if len(found) > MOST_BOUNDS:
        raise BadBound(f"got {len(found)} delay bounds, want at most {MOST_BOUNDS}")
    return tuple(found)


def _labelled(pod: Pod) -> Iterator[Bound]:
    for label in sorted(label for label in pod.labels if label.startswith(PREFIX)):
        reference, value = label.removeprefix(PREFIX), pod.labels[label]
        if not reference:
            raise BadBound(f'label {label}: nothing is named, want delay_<node or workload>: "<ms>"')
        yield Bound(reference, _ms(value, f"label {label}"), *_defaults(pod))


def _lines(pod: Pod) -> Iterator[Bound]:
    text = pod.annotations.get(LINES, "")
    if len(text) > MOST_CHARACTERS:
        raise BadBound(f"annotation {LINES}: got {len(text):,} characters, want at most {MOST_CHARACTERS:,}")
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if said:
            yield _line(said, f"annotation {LINES}, line {number}", *_defaults(pod))


def _line(said: str, place: str, replicas: Replicas, estimate: Estimate | None) -> Bound:
    parts = _LINE.fullmatch(said)
    if not parts:
        raise BadBound(f'{place}: got {_shown(said)}, want "<from>: <ms>", such as "deployment/web: 2.5"')
    reference, value, options = parts[1], parts[2], parts[3].split()
    if not _FROM.fullmatch(reference):
        raise BadBound(f"{place}: got {_shown(reference)}, want a name, kind/name or namespace/kind/name")
    for option in options:
        replicas, estimate = _chosen(option, place, replicas, estimate)
    return Bound(reference, _ms(value, place), replicas, estimate)


def _chosen(option: str, place: str, replicas: Replicas, estimate: Estimate | None) -> tuple[Replicas, Estimate | None]:
    if option in list(Replicas):
        return Replicas(option), estimate
    if option in list(Estimate):
        return replicas, Estimate(option)
    raise BadBound(f"{place}: got {_shown(option)}, want {_allowed([*Replicas, *Estimate])}")


def _defaults(pod: Pod) -> tuple[Replicas, Estimate | None]:
    return (
        _choice(REPLICAS, Replicas, pod.annotations) or Replicas.ALL,
        _choice(ESTIMATE, Estimate, pod.annotations),
    )


def _choice(annotation: str, kind: type[Choice], annotations: Mapping[str, str]) -> Choice | None:
    value = annotations.get(annotation)
    if value is None or value in list(kind):
        return None if value is None else kind(value)
    raise BadBound(f"annotation {annotation}: got {_shown(value)}, want {_allowed(list(kind))}")


def _ms(value: str, place: str) -> float:
    if not _MILLISECONDS.fullmatch(value):
        raise BadBound(f'{place}: got {_shown(value)}, want milliseconds such as "25" or "2.5"')
    return float(value)


def _allowed(choices: list[StrEnum] | list[Choice]) -> str:
    return ", ".join(choices)


def _shown(value: str) -> str:
    return f'"{value}"' if len(value) <= _MOST_SHOWN else f'"{value[:_MOST_SHOWN]}…"'
