"""What a row of the table is, and what it may use."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from tests.torture.cluster import Cluster
from tests.torture.load import SchedulerClient
from tests.torture.log import Attacked, Recovery
from tests.torture.recorder import Recorder
from tests.torture.shape import EXTENDERS

POLL_SECONDS = 0.05
GIVE_UP_SECONDS = 150.0
"""Longer than any row keeps etcd away, and what then must happen."""

AGENT_SECONDS, VIEW_SECONDS, DEAD_NODE_SECONDS, LEADER_SECONDS = 8.0, 10.0, 21.0, 5.0
"""Promise G6."""


class Stage:
    """What a row works on.

    alone: no other row is under way, so that the promised times count. recoveries: what the row measured.
    """

    def __init__(self, cluster: Cluster, recorder: Recorder, client: SchedulerClient, alone: bool) -> None:
        self.cluster, self.recorder, self.client, self.alone = cluster, recorder, client, alone
        self.recoveries: list[Recovery] = []

    async def measure(
        self, what: str, limit_seconds: float, met: Callable[[], Any], since: float | None = None
    ) -> None:
        """Waits until `met`, and notes how long it took; after GIVE_UP_SECONDS that it did not happen."""
        began = time.monotonic() if since is None else since
        took = None
        while took is None and time.monotonic() < began + max(GIVE_UP_SECONDS, 2 * limit_seconds):
            result = met()
            if await result if isinstance(result, Awaitable) else result:
                took = time.monotonic() - began
            else:
                await asyncio.sleep(POLL_SECONDS)
        self.recoveries.append(Recovery(what, took, limit_seconds if self.alone else None))

    async def recover(self, healed_at: float) -> None:
        """Until every agent reports and both extenders see all of them."""
        seen = (
            self.measure(f"view of {name}", VIEW_SECONDS, self._sees_all(name, healed_at), healed_at)
            for name in EXTENDERS
        )
        agents = self.measure("agents", AGENT_SECONDS, lambda: self.recorder.all_pushed_since(healed_at), healed_at)
        await asyncio.gather(agents, *seen)

    def _sees_all(self, extender: str, since: float) -> Callable[[], bool]:
        return lambda: self.recorder.sees_all_fresh(extender, since)

    def attacked(self, kind: str, began: float, status: int) -> None:
        self.cluster.log.append(Attacked(began, kind, time.monotonic() - began, status))


class Row(NamedTuple):
    """A row: a fault or an input.

    inject: breaks on entry, heals on exit. says: what it does. hold_seconds: between the two.
    touches: what it needs to itself; rows that touch different things may overlap.
    lacks: why it cannot be carried out on this machine; "" when it can.
    """

    name: str
    says: str
    hold_seconds: float
    touches: frozenset[str]
    inject: Callable[[Stage], AbstractAsyncContextManager[None]]
    lacks: Callable[[Cluster], str]


ROWS: dict[str, Row] = {}

Body = Callable[[Stage], AsyncIterator[None]]


def row(hold_seconds: float, *touches: str, lacks: Callable[[Cluster], str] = lambda _: "") -> Callable[[Body], Body]:
    """Makes a row of an asynchronous generator that yields once; its name and first line are the row's."""

    def added(body: Body) -> Body:
        name = body.__name__.replace("_", "-")
        says = (body.__doc__ or "").partition("\n")[0].rstrip(".")
        ROWS[name] = Row(name, says, hold_seconds, frozenset(touches), asynccontextmanager(body), lacks)
        return body

    return added
