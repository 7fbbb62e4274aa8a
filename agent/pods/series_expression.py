"""One value out of a page of metrics in Prometheus' text format. Pure.

    queue_seconds                                          a gauge: the mean of its samples
    queue_seconds{queue="in"}                              of those samples only
    request_seconds_sum / request_seconds_count            a mean over time: the increase of one by that of the other

Source: github.com/prometheus/docs, exposition_formats: name, labels, value, timestamp.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"'
_SELECTOR = re.compile(rf"({_NAME})(?:\{{(\s*{_LABEL}\s*(?:,\s*{_LABEL}\s*)*,?\s*)?\}})?")
_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})?\s+(\S+)(?:\s+-?\d+)?\s*")


class InvalidSeries(ValueError):
    """The text names no series. Says what is wanted."""


class SeriesSelector(Struct, frozen=True):
    name: str
    labels: Mapping[str, str]


class SeriesExpression(Struct, frozen=True):
    """per: None for a gauge; else both are counters, and `of` is told for one of `per`."""

    numerator: SeriesSelector
    denominator: SeriesSelector | None = None


def parse_expression(text: str) -> SeriesExpression:
    """InvalidSeries when it is none."""
    of, slash, per = text.partition(" / ")
    return SeriesExpression(_selector(of), _selector(per) if slash else None)


def evaluate_page(series: SeriesExpression, page: str) -> tuple[float, float | None] | None:
    """What the page says of `of` and of `per`; None when one of them is not there."""
    of = _values(series.numerator, page)
    per = _values(series.denominator, page) if series.denominator else []
    if not of or (series.denominator and not per):
        return None
    return (sum(of), sum(per)) if series.denominator else (sum(of) / len(of), None)


def value_between(before: tuple[float, float | None] | None, after: tuple[float, float | None]) -> float | None:
    """The value between two readings. None: there is none yet, nothing happened, or the counters began anew."""
    if after[1] is None:
        return after[0]
    if before is None or before[1] is None:
        return None
    of, per = after[0] - before[0], after[1] - before[1]
    return of / per if per > 0 and of >= 0 else None


def _values(selector: SeriesSelector, page: str) -> list[float]:
    return [each for each in _matching_values(selector, page) if each == each]  # NaN is no value


def _matching_values(selector: SeriesSelector, page: str) -> Iterator[float]:
    for line in page.splitlines():
        if not line.startswith(selector.name):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample and sample[1] == selector.name and selector.labels.items() <= _labels(sample[2] or "").items():
            yield _number(sample[3])


def _selector(text: str) -> SeriesSelector:
    found = _SELECTOR.fullmatch(text.strip())
    if found is None:
        raise InvalidSeries(f'{text.strip()!r}: want name, name{{label="value"}} or one / another')
    return SeriesSelector(found[1], _labels(found[2] or ""))


def _labels(text: str) -> dict[str, str]:
    return dict(re.findall(_LABEL, text))


def _number(text: str) -> float:
    """+Inf and what is no number are no value."""
    try:
        found = float(text)
    except ValueError:
        return float("nan")
    return found if abs(found) != float("inf") else float("nan")
