"""How peers are probed. Pure."""

import math

from msgspec import Struct

from agent.rtt.probe_method import ProbeMode
from leadsman.state.records import LONGEST_PROBE_SECONDS


class ProbeSettings(Struct, frozen=True):
    """What a prober is told at its start. ValueError for a value out of bounds.

    mode: auto probes by ICMP, and by TCP where a peer answers only that. With icmp, refused sockets are an error.
    interval_seconds: time between two probes to one peer, ± 10 %. Shorter notices changes sooner and costs more.
    timeout_seconds: a later reply is a loss, so a silence is noticed so much later. It may exceed the interval; several
        probes are then open.
    window_seconds: span of p50, p95, loss and jitter. At least an interval.
    tcp_port: where a peer's host answers or refuses a handshake; the agent's own port by default.
    """

    mode: ProbeMode = ProbeMode.AUTO
    interval_seconds: float = 1.0
    timeout_seconds: float = 1.0
    window_seconds: float = 30.0
    tcp_port: int = 9102

    def __post_init__(self) -> None:
        _check("probe interval", self.interval_seconds, 0.01, 3600)
        _check("probe timeout", self.timeout_seconds, 0.001, LONGEST_PROBE_SECONDS)
        _check("window", self.window_seconds, self.interval_seconds, 86_400)
        if not 1 <= self.tcp_port <= 65_535:
            raise ValueError(f"TCP probe port {self.tcp_port}: must be 1 to 65535")


def _check(name: str, seconds: float, least: float, most: float) -> None:
    if not (math.isfinite(seconds) and least <= seconds <= most):
        raise ValueError(f"{name} {seconds} s: must be {least:g} to {most:g}")
