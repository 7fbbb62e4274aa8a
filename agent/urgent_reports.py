"""Has a report sent at once when a peer falls silent or answers again, at a limited rate."""

import asyncio
from collections.abc import Callable
from random import Random

from leadsman.runtime.token_bucket import TokenBucket

URGENT_REPORTS_PER_SECOND, URGENT_REPORTS_BURST = 0.5, 3
"""Of one agent. At 30 % loss a peer of 16 falls silent or answers again about once a second."""

URGENT_REPORTS_PER_SECOND_OF_ALL = 2_000.0
"""Agents spread the first report after a fault that all see over so long that etcd gets no more: 50 ms at 100 nodes,
2.5 s at 5,000."""


class UrgentReports:
    """Call `request` when a report is due at once; `run` it as one task.

    report: has the report sent.
    nodes: in the cluster, about.
    clock: monotonic seconds.
    """

    def __init__(
        self, report: Callable[[], None], nodes: Callable[[], int], clock: Callable[[], float], rng: Random
    ) -> None:
        self._report, self._nodes, self._rng = report, nodes, rng
        self._rate = TokenBucket(URGENT_REPORTS_PER_SECOND, URGENT_REPORTS_BURST, clock)
        self._requested = asyncio.Event()

    def request(self) -> None:
        self._requested.set()

    async def run(self) -> None:
        """Until cancelled. Requests that come during a wait are one report."""
        while True:
            await self._requested.wait()
            await asyncio.sleep(self._rng.uniform(0, self._nodes() / URGENT_REPORTS_PER_SECOND_OF_ALL))
            await self._rate.wait()
            self._requested.clear()
            self._report()
