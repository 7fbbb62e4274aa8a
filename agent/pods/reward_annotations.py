"""A pod's annotations on its own reward: where its metric is, and which direction is better. Pure.

leadsman.dev/reward-port: "9100"                the pod's port
leadsman.dev/reward-path: /metrics              default /metrics
leadsman.dev/reward-series: queue_seconds       agent.pods.series_expression says what may stand here
leadsman.dev/reward-direction: lower            lower (default) or higher is better
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from agent.pods import series_expression
from agent.pods.series_expression import SeriesExpression
from leadsman.kube.names import DIRECTION_ANNOTATION, PATH_ANNOTATION, PORT_ANNOTATION, SERIES_ANNOTATION
from leadsman.kube.objects import Pod

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
        return series_expression.parse_expression(text)
    except series_expression.InvalidSeries as error:
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
