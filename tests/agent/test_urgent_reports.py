"""A report goes out at once when a peer falls silent, at a limited rate."""

import asyncio
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from agent.run import URGENT_REPORTS_BURST, UrgentReports

if TYPE_CHECKING:
    from tests.conftest import Until


class Reports:
    """Counts reports, with a clock that stands still unless the test moves it."""

    def __init__(self) -> None:
        self.count, self.now = 0, 0.0
        self.urgent = UrgentReports(self.report, lambda: 1, lambda: self.now, Random(1))

    def report(self) -> None:
        self.count += 1


async def test_requests_are_reports_until_the_burst_is_spent_and_then_wait_for_their_turn(until: "Until") -> None:
    reports = Reports()
    task = asyncio.create_task(reports.urgent.run())
    for done in range(1, URGENT_REPORTS_BURST + 1):
        reports.urgent.request()
        await until(lambda done=done: reports.count == done)
    began = time.monotonic()
    reports.urgent.request()
    reports.urgent.request()
    await until(lambda: reports.count == URGENT_REPORTS_BURST + 1)
    assert time.monotonic() - began > 1.0, "half a report a second"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
