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
_LABELS = re.compile(rf"(?<![a-zA-Z0-9_]){_LABEL}")
"""Only from where a name begins: else a page with one long name would be looked through from each of its letters."""

_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})?\s+(\S+)(?:\s+-?\d+)?\s*")


class InvalidSeries(ValueError):
    """The text names no series. The message says what is allowed."""


class SeriesSelector(Struct, frozen=True):
    """The samples of one name that have all these labels."""

    name: str
    labels: Mapping[str, str]


class SeriesExpression(Struct, frozen=True):
    """One value of a page.

    denominator: None for a gauge. Otherwise both are counters, and the value is the increase of the numerator divided
        by that of the denominator.
    """

    numerator: SeriesSelector
    denominator: SeriesSelector | None = None


def parse_expression(text: str) -> SeriesExpression:
    """The expression that the text is. InvalidSeries when it is none."""
    numerator, slash, denominator = text.partition(" / ")
    return SeriesExpression(_selector(numerator), _selector(denominator) if slash else None)


def evaluate_page(series: SeriesExpression, page: str) -> tuple[float, float | None] | None:
    """The sums of numerator and denominator on the page, or (mean, None) of a gauge; None when a series is missing."""
    numerators = _values(series.numerator, page)
    denominators = _values(series.denominator, page) if series.denominator else []
    if not numerators or (series.denominator and not denominators):
        return None
    if series.denominator:
        return sum(numerators), sum(denominators)
    return sum(numerators) / len(numerators), None


def value_between(before: tuple[float, float | None] | None, after: tuple[float, float | None]) -> float | None:
    """The value between two reads; None at the first read, when nothing happened and when the counters were reset."""
    if after[1] is None:
        return after[0]
    if before is None or before[1] is None:
        return None
    numerator, denominator = after[0] - before[0], after[1] - before[1]
    return numerator / denominator if denominator > 0 and numerator >= 0 else None


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
    match = _SELECTOR.fullmatch(text.strip())
    if match is None:
        raise InvalidSeries(f'{text.strip()!r}: must be name, name{{label="value"}} or one / another')
    return SeriesSelector(match[1], _labels(match[2] or ""))


def _labels(text: str) -> dict[str, str]:
    return dict(_LABELS.findall(text))


def _number(text: str) -> float:
    """NaN for infinities and for what is no number: neither is a value."""
    try:
        number = float(text)
    except ValueError:
        return float("nan")
    return number if abs(number) != float("inf") else float("nan")
