"""How to probe."""

import math

from msgspec import Struct

from agent.rtt.probe_method import ProbeMode

_LONGEST_TIMEOUT_SECONDS = 60.0
"""The largest RTT that a record holds."""


class ProbeSettings(Struct, frozen=True):
    """
    mode             auto: ICMP, and TCP to those who answer only it. icmp: refused sockets are an error.
    interval         one probe a peer this often, ± 10 %. Shorter: sooner noticed, and more load.
    timeout          an answer after this is a loss. May exceed the interval; several probes are then under way.
    window           what p50, p95, loss and jitter speak of. At least an interval.
    tcp_port         where a peer's host answers a handshake or refuses it; the agent's own port by default.
    """

    mode: ProbeMode = ProbeMode.AUTO
    interval_seconds: float = 1.0
    timeout_seconds: float = 1.0
    window_seconds: float = 30.0
    tcp_port: int = 9102

    def __post_init__(self) -> None:
        _check("probe interval", self.interval_seconds, 0.01, 3600)
        _check("probe timeout", self.timeout_seconds, 0.001, _LONGEST_TIMEOUT_SECONDS)
        _check("window", self.window_seconds, self.interval_seconds, 86_400)
        if not 1 <= self.tcp_port <= 65_535:
            raise ValueError(f"TCP probe port {self.tcp_port}: want 1 to 65535")


def _check(name: str, seconds: float, least: float, most: float) -> None:
    if not (math.isfinite(seconds) and least <= seconds <= most):
        raise ValueError(f"{name} {seconds} s: want {least:g} to {most:g}")
