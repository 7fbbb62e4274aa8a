"""A pod's annotations on its own reward: where its metric is, and which direction is better. Pure.

leadsman.dev/reward-port: "9100"                the pod's port
leadsman.dev/reward-path: /metrics              default /metrics
leadsman.dev/reward-series: queue_seconds       agent.pods.reward_annotations says what may stand here
leadsman.dev/reward-direction: lower            lower (default) or higher is better
"""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.kube.names import DIRECTION_ANNOTATION, PATH_ANNOTATION, PORT_ANNOTATION, SERIES_ANNOTATION
from leadsman.kube.objects import Pod

# One value out of a page of metrics in Prometheus' text format.
#
# queue_seconds                                          a gauge: the mean of its samples
# queue_seconds{queue="in"}                              of those samples only
# request_seconds_sum / request_seconds_count            a mean over time: the increase of one by that of the other
#
# Source: github.com/prometheus/docs, exposition_formats: name, labels, value, timestamp.

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


_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_MAX_PORT = 65_535
_LONGEST_PATH = 256
_LONGEST_SERIES = 512
_LONGEST_QUALITY = 128


class InvalidAnnotation(ValueError):
    """An annotation has a value that is not allowed. The text names both, and what is allowed."""


class RewardMetric(Struct, frozen=True):
    """The metric that a pod names.

    url: on the pod's own address.
    quality: its name in the reward.
    """

    url: str
    series: SeriesExpression
    quality: str
    higher_is_better: bool

    def cost(self, value: float) -> float:
        """The cost of a value: lower is better. 0 for a value that has no cost, which observations ignore."""
        return value if not self.higher_is_better else 1 / value if value > 0 else 0.0


def parse_reward_metric(pod: Pod) -> RewardMetric | None:
    """The metric that the pod's annotations name; None when they name none. InvalidAnnotation.

    None too for a pod without an address of its own: on its host's address it could name any port.
    """
    annotations, address = pod.metadata.annotations, pod.status.pod_ip
    if SERIES_ANNOTATION not in annotations or not address or address == pod.status.host_ip:
        return None
    host = f"[{address}]" if ":" in address else address
    series, url = annotations[SERIES_ANNOTATION], f"http://{host}:{_port(annotations)}{_path(annotations)}"
    return RewardMetric(url, _series(series), _quality_name(series), _parse_direction(annotations))


def _port(annotations: Mapping[str, str]) -> int:
    text = annotations.get(PORT_ANNOTATION, "")
    if not (_PORT.fullmatch(text) and 0 < int(text) <= _MAX_PORT):
        raise InvalidAnnotation(f"{PORT_ANNOTATION} {_shown(text)}: must be a port number, 1 to {_MAX_PORT}")
    return int(text)


def _path(annotations: Mapping[str, str]) -> str:
    path = annotations.get(PATH_ANNOTATION, "/metrics")
    if not re.fullmatch(r"/[!-~]*", path) or len(path) > _LONGEST_PATH:
        raise InvalidAnnotation(
            f"{PATH_ANNOTATION} {_shown(path)}: must begin with / and have at most {_LONGEST_PATH} characters"
        )
    return path


def _series(text: str) -> SeriesExpression:
    if len(text) > _LONGEST_SERIES:
        raise InvalidAnnotation(
            f"{SERIES_ANNOTATION} has {len(text)} characters; at most {_LONGEST_SERIES} are allowed"
        )
    try:
        return parse_expression(text)
    except InvalidSeries as error:
        raise InvalidAnnotation(f"{SERIES_ANNOTATION} {error}") from error


def _parse_direction(annotations: Mapping[str, str]) -> bool:
    direction = annotations.get(DIRECTION_ANNOTATION, "lower")
    if direction not in ("lower", "higher"):
        raise InvalidAnnotation(f"{DIRECTION_ANNOTATION} {_shown(direction)}: must be lower or higher")
    return direction == "higher"


def _quality_name(series: str) -> str:
    """The series as a metric's name, which a reward's qualities have."""
    return re.sub(r"[^a-zA-Z0-9_]+", "_", series).strip("_")[:_LONGEST_QUALITY]


def _shown(value: str) -> str:
    """Cut: an annotation may have 256 KiB, and the text goes to the log."""
    return repr(value) if len(value) <= _LONGEST_PATH else f"{value[:_LONGEST_PATH]!r}…"
