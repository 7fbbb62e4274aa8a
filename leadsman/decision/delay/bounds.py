"""A pod's labels `delay_<from>: "<ms>"` and its annotation `leadsman.dev/delay` → bounds.

Names are exact and may have dots; a value is a plain decimal number. An exponent is refused: nobody writes one on
purpose, and a slip would move the bound by powers of ten. What cannot be understood is never left out: it is BadBound.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from leadsman.decision.model import PodInfo
from leadsman.decision.policy import EstimateMode
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX, ESTIMATE_ANNOTATION, REPLICAS_ANNOTATION

MAX_BOUNDS = 32
MAX_ANNOTATION_CHARACTERS = 4096

MAX_PARSED = 128
"""Texts of bounds whose bounds are kept, of up to 4 KiB and a few labels."""

_Pairs = tuple[tuple[str, str], ...]
"""Labels and their values."""

_Options = tuple[str | None, str | None]
"""The annotations that say for all bounds of a pod which replicas count, and how estimates do."""

_MAX_SHOWN = 63
_MILLISECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_FROM = re.compile(rf"(({_NAME}/)?[a-z][a-z0-9]*/)?{_NAME}")
_LINE = re.compile(r"([^\s:]+)\s*:\s*(\S+)((?:\s+\S+)*)")

OptionT = TypeVar("OptionT", bound=StrEnum)


class BadBound(ValueError):
    """A bound cannot be understood, so the pod fits nowhere. Names the place, what stands there and what is allowed."""


class ReplicaMode(StrEnum):
    """Which placed pods of a workload the bound is to."""

    ALL = "all"
    """Each: a Service may send a request to any of them."""
    NEAREST = "nearest"
    """At least one: for clients that choose the nearest themselves."""


class DelayBound(Struct, frozen=True):
    """At most `ms` milliseconds of round trip between `reference` and the pod's node.

    reference: as written: `name`, `kind/name` or `namespace/kind/name`. estimate: None: the policy's.
    """

    reference: str
    ms: float
    replicas: ReplicaMode = ReplicaMode.ALL
    estimate: EstimateMode | None = None


def parse_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """The bounds of a pod, all of which must hold: labels by name, then lines in order. Raises BadBound."""
    if pod.excess:
        raise BadBound(pod.excess)
    labels = tuple((label, value) for label, value in pod.labels.items() if label.startswith(DELAY_LABEL_PREFIX))
    text = pod.annotations.get(DELAY_ANNOTATION, "")
    if not labels and not text:
        return ()
    options = pod.annotations.get(REPLICAS_ANNOTATION), pod.annotations.get(ESTIMATE_ANNOTATION)
    return _parse(labels, text, options)


@lru_cache(MAX_PARSED)
def _parse(labels: _Pairs, text: str, options: _Options) -> tuple[DelayBound, ...]:
    """A pod's bounds are asked for four times and more, and the pods of a workload say the same."""
    return _within_limits([*_label_bounds(labels, options), *_annotation_bounds(text, options)])


def valid_bounds(pod: PodInfo) -> tuple[DelayBound, ...]:
    """The bounds of a pod that was judged before; none when one is bad, as then every node is refused."""
    try:
        return parse_bounds(pod)
    except BadBound:
        return ()


def _within_limits(found: list[DelayBound]) -> tuple[DelayBound, ...]:
    if len(found) > MAX_BOUNDS:
        raise BadBound(f"the pod has {len(found)} delay bounds; at most {MAX_BOUNDS} are allowed")
    return tuple(found)


def _label_bounds(labels: _Pairs, options: _Options) -> Iterator[DelayBound]:
    for label, value in sorted(labels):
        reference = label.removeprefix(DELAY_LABEL_PREFIX)
        if not reference:
            raise BadBound(f'label {label} names no node or workload; write delay_<node or workload>: "<ms>"')
        yield DelayBound(reference, _parse_ms(value, f"label {label}"), *_defaults(options))


def _annotation_bounds(text: str, options: _Options) -> Iterator[DelayBound]:
    if len(text) > MAX_ANNOTATION_CHARACTERS:
        size = f"{len(text):,} characters; at most {MAX_ANNOTATION_CHARACTERS:,} are allowed"
        raise BadBound(f"annotation {DELAY_ANNOTATION} has {size}")
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.partition("#")[0].strip()
        if said:
            yield _parse_line(said, f"annotation {DELAY_ANNOTATION}, line {number}", *_defaults(options))


def _parse_line(said: str, place: str, replicas: ReplicaMode, estimate: EstimateMode | None) -> DelayBound:
    parts = _LINE.fullmatch(said)
    if not parts:
        raise BadBound(f'{place}: {_shown(said)} is not valid; write "<from>: <ms>", such as "deployment/web: 2.5"')
    reference, value, options = parts[1], parts[2], parts[3].split()
    if not _FROM.fullmatch(reference):
        raise BadBound(f"{place}: {_shown(reference)} is not valid; use a name, kind/name or namespace/kind/name")
    for option in options:
        replicas, estimate = _apply_option(option, place, replicas, estimate)
    return DelayBound(reference, _parse_ms(value, place), replicas, estimate)


def _apply_option(
    option: str, place: str, replicas: ReplicaMode, estimate: EstimateMode | None
) -> tuple[ReplicaMode, EstimateMode | None]:
    if option in list(ReplicaMode):
        return ReplicaMode(option), estimate
    if option in list(EstimateMode):
        return replicas, EstimateMode(option)
    raise BadBound(f"{place}: {_shown(option)} is not valid; use {_allowed([*ReplicaMode, *EstimateMode])}")


def _defaults(options: _Options) -> tuple[ReplicaMode, EstimateMode | None]:
    replicas, estimate = options
    return (
        _annotation_option(REPLICAS_ANNOTATION, ReplicaMode, replicas) or ReplicaMode.ALL,
        _annotation_option(ESTIMATE_ANNOTATION, EstimateMode, estimate),
    )


def _annotation_option(annotation: str, kind: type[OptionT], value: str | None) -> OptionT | None:
    if value is None or value in list(kind):
        return None if value is None else kind(value)
    raise BadBound(f"annotation {annotation}: {_shown(value)} is not valid; use {_allowed(list(kind))}")


def _parse_ms(value: str, place: str) -> float:
    if not _MILLISECONDS.fullmatch(value):
        raise BadBound(f'{place}: {_shown(value)} is not valid; use milliseconds such as "25" or "2.5"')
    return float(value)


def _allowed(choices: list[StrEnum] | list[OptionT]) -> str:
    return ", ".join(choices)


def _shown(value: str) -> str:
    return f'"{value}"' if len(value) <= _MAX_SHOWN else f'"{value[:_MAX_SHOWN]}…"'
