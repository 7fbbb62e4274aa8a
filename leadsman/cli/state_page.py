"""The extender's page /state, as `leadsman state`, `nodes` and `delay` read it."""

from collections.abc import Mapping
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from leadsman.cli.parser import did_you_mean


class NodePage(Struct, frozen=True):
    """A node of the page.

    peers_p50_ms: peer → median round trip; None: probed, and no answer was timed.
    """

    freshness: str
    age_seconds: float | None
    address: str | None = None
    zone: str = ""
    peers_p50_ms: Mapping[str, float | None] = {}
    hardware: Mapping[str, float] = {}

    @property
    def measured_ms(self) -> Mapping[str, float]:
        return {peer: rtt for peer, rtt in self.peers_p50_ms.items() if rtt is not None}

    @property
    def median_rtt_ms(self) -> float | None:
        """Of the peers with a measured round trip; None: there is none."""
        return median(self.measured_ms.values()) if self.measured_ms else None


class StatePage(Struct, frozen=True):
    cluster: str
    revision: int
    age_seconds: float | None
    nodes: Mapping[str, NodePage]
    policy_problem: str = ""
    tls_problem: str = ""
    problems: Mapping[str, str] = {}
    delay_problems: Mapping[str, str] = {}
    contradicted_nodes: Mapping[str, str] = {}

    @property
    def every_problem(self) -> list[str]:
        """A line each, as an operator reads them."""
        return [
            *(each for each in (self.policy_problem, self.tls_problem) if each),
            *(
                f"{where}: {why}"
                for page in (self.problems, self.delay_problems, self.contradicted_nodes)
                for where, why in page.items()
            ),
        ]

    def node(self, name: str) -> NodePage:
        """ValueError when there is none, with the nearest name."""
        if name not in self.nodes:
            raise ValueError(f"the extender has no node {name!r}{did_you_mean(name, self.nodes)}")
        return self.nodes[name]


def read(plain: Any) -> StatePage:
    return msgspec.convert(plain, StatePage)
