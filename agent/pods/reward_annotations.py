"""What a pod says of its own reward: where its metric is, and which way is better. Pure.

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

_MAX_PORT = 65_535
_LONGEST_PATH = 256
_LONGEST_QUALITY = 128


class InvalidAnnotation(ValueError):
    """Names the annotation, its value and what is allowed."""


class RewardMetric(Struct, frozen=True):
    """url: on the pod's own address. quality: its name in the reward."""

    url: str
    series: SeriesExpression
    quality: str
    higher_is_better: bool

    def cost(self, value: float) -> float:
        """Lower is better; 0 for a value that has no cost, which an observation leaves out."""
        return value if not self.higher_is_better else 1 / value if value > 0 else 0.0


def parse_reward_metric(pod: Pod) -> RewardMetric | None:
    """None when the pod has none of its own, or no address of its own: on the host's it could name anybody's port.

    InvalidAnnotation.
    """
    said, address = pod.metadata.annotations, pod.status.pod_ip
    if SERIES_ANNOTATION not in said or not address or address == pod.status.host_ip:
        return None
    host = f"[{address}]" if ":" in address else address
    wanted = said[SERIES_ANNOTATION]
    return RewardMetric(
        f"http://{host}:{_port(said)}{_path(said)}", _series(wanted), _quality_name(wanted), _parse_direction(said)
    )


def _port(said: Mapping[str, str]) -> int:
    text = said.get(PORT_ANNOTATION, "")
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MAX_PORT):
        raise InvalidAnnotation(f"{PORT_ANNOTATION} {text!r}: want a port number")
    return int(text)


def _path(said: Mapping[str, str]) -> str:
    path = said.get(PATH_ANNOTATION, "/metrics")
    if not re.fullmatch(r"/[!-~]*", path) or len(path) > _LONGEST_PATH:
        raise InvalidAnnotation(
            f"{PATH_ANNOTATION} {path!r}: want a path that begins with /, at most {_LONGEST_PATH} characters"
        )
    return path


def _series(text: str) -> SeriesExpression:
    try:
        return series_expression.parse_expression(text)
    except series_expression.InvalidSeries as error:
        raise InvalidAnnotation(f"{SERIES_ANNOTATION} {error}") from error


def _parse_direction(said: Mapping[str, str]) -> bool:
    direction = said.get(DIRECTION_ANNOTATION, "lower")
    if direction not in ("lower", "higher"):
        raise InvalidAnnotation(f"{DIRECTION_ANNOTATION} {direction!r}: want lower or higher")
    return direction == "higher"


def _quality_name(wanted: str) -> str:
    """A metric's name, as a reward's qualities have it."""
    return re.sub(r"[^a-zA-Z0-9_]+", "_", wanted).strip("_")[:_LONGEST_QUALITY]
