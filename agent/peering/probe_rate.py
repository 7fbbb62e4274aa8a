"""How often to probe and to report, from the number of nodes alone. Pure.

Each agent takes its share of two budgets of the whole cluster: probes a second, and reports a second (see
leadsman.state.report_timing). The assumed number of nodes moves in steps of a tenth, upwards as soon as the estimate
exceeds it and downwards only when the estimate is a third below, so that the estimate's noise of 6 % changes neither
the intervals nor the lease. In the long run the noise's peaks set the step: 1.1 to 1.3 times the truth, on the budgets'
safe side.
"""

from math import ceil, log

PROBE_BUDGET = 20_000.0
"""Probes a second in the whole cluster. At 16 peers a node probes each once a second up to 1,250 nodes, every 4 s at
5,000. In bytes: 3.7 MB/s of the network in all, requests and replies."""

MIN_NODES = 100
"""Below this number no interval stretches."""

_STEP = 1.1
_LOWER_AT = 0.65

MIN_PROBES_PER_WINDOW = 10
"""A window stretches when the interval leaves fewer probes in it; the p95 of fewer is their maximum."""


def assumed_nodes(before: int, estimate: float) -> int:
    """The number of nodes to compute with: a step of the ladder MIN_NODES x 1.1^i, at or above the estimate."""
    if before >= estimate >= _LOWER_AT * before:
        return before
    steps = max(0, ceil(log(max(estimate, 1.0) / MIN_NODES, _STEP) - 1e-9))
    return ceil(MIN_NODES * _STEP**steps)


def probe_interval_seconds(base_seconds: float, peers: int, nodes: int, budget: float) -> float:
    """Time between two probes to one peer, so that `nodes` agents with `peers` each send at most `budget` a second."""
    return max(base_seconds, peers * nodes / budget)


def window_seconds(base_seconds: float, interval_seconds: float) -> float:
    """The span of the statistics: stretched, so that it holds enough probes."""
    return max(base_seconds, MIN_PROBES_PER_WINDOW * interval_seconds)
