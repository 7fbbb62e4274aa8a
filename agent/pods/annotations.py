"""What a pod says of its own reward: where its metric is, and which way is better. Pure.

leadsman.dev/reward-port: "9100"                the pod's port
leadsman.dev/reward-path: /metrics              default /metrics
leadsman.dev/reward-series: queue_seconds       agent.pods.series says what may stand here
leadsman.dev/reward-direction: lower            lower (default) or higher is better
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from agent.pods import series
from agent.pods.series import Series
from apiserver.objects import Pod

PREFIX = "leadsman.dev/reward-"
PORT, PATH, SERIES, DIRECTION = (PREFIX + name for name in ("port", "path", "series", "direction"))

_LARGEST_PORT = 65_535
_LONGEST_PATH = 256
_LONGEST_QUALITY = 128


class BadAnnotation(ValueError):
    """Names the annotation, its value and what is allowed."""


class Metric(Struct, frozen=True):
    """url: on the pod's own address. quality: its name in the reward."""

    url: str
    series: Series
    quality: str
    higher_is_better: bool

    def cost(self, value: float) -> float:
        """Lower is better; 0 for a value that has no cost, which an observation leaves out."""
        return value if not self.higher_is_better else 1 / value if value > 0 else 0.0


def metric(pod: Pod) -> Metric | None:
    """None when the pod has none of its own, or no address of its own: on the host's it could name anybody's port.

    BadAnnotation.
    """
    said, address = pod.metadata.annotations, pod.status.pod_ip
    if SERIES not in said or not address or address == pod.status.host_ip:
        return None
    host = f"[{address}]" if ":" in address else address
    wanted = said[SERIES]
    return Metric(f"http://{host}:{_port(said)}{_path(said)}", _series(wanted), _quality(wanted), _higher(said))


def _port(said: Mapping[str, str]) -> int:
    text = said.get(PORT, "")
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _LARGEST_PORT):
        raise BadAnnotation(f"{PORT} {text!r}: want a port number")
    return int(text)


def _path(said: Mapping[str, str]) -> str:
    path = said.get(PATH, "/metrics")
    if not re.fullmatch(r"/[!-~]*", path) or len(path) > _LONGEST_PATH:
        raise BadAnnotation(f"{PATH} {path!r}: want a path that begins with /, at most {_LONGEST_PATH} characters")
    return path


def _series(text: str) -> Series:
    try:
        return series.parse(text)
    except series.BadSeries as error:
        raise BadAnnotation(f"{SERIES} {error}") from error


def _higher(said: Mapping[str, str]) -> bool:
    direction = said.get(DIRECTION, "lower")
    if direction not in ("lower", "higher"):
        raise BadAnnotation(f"{DIRECTION} {direction!r}: want lower or higher")
    return direction == "higher"


def _quality(wanted: str) -> str:
    """A metric's name, as a reward's qualities have it."""
    return re.sub(r"[^a-zA-Z0-9_]+", "_", wanted).strip("_")[:_LONGEST_QUALITY]
