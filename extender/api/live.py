"""What the API keeps between requests: the newest view, the history, what was decided, and the event streams."""

import asyncio
import logging

from extender.api.change_streams import ChangeStreams
from extender.api.cluster_view import ClusterView, make_view
from extender.api.contract.overview import ChangeEvent
from extender.api.decision_counts import DecisionCounts
from extender.api.history import MINUTE_SECONDS, DelayHistory
from extender.api.sources import ApiSources
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

MIN_AGE_SECONDS, MAX_AGE_SECONDS = 2.0, 10.0
"""A view is made again when it is older than the first and the state changed, or older than the second."""

TICK_SECONDS = 2.0


class LiveState:
    """`run` it as one task.

    history: of delays. It is kept from the first `keep_history` on: an extender whose page nobody opens has none of it.
    """

    def __init__(self, sources: ApiSources) -> None:
        self.sources = sources
        self.history = DelayHistory(sources.wall_clock())
        self._next_minute = float("inf")
        self.decisions, self.streams = DecisionCounts(sources), ChangeStreams()
        self._view: ClusterView | None = None
        self._making: asyncio.Task[ClusterView] | None = None
        self._shown: tuple[int, object] = (-1, None)
        self._problem = ProblemLog(
            _log, "the delay history lacks this minute; the next is tried", "the delay history goes on", logging.ERROR
        )

    async def view(self) -> ClusterView:
        """A view that is new enough. All who wait share one that is being made."""
        if self._view is not None and not self._is_due(self._view):
            return self._view
        if self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make_view(), name="make the API's view")
            self._making.add_done_callback(self._made)
        return await asyncio.shield(self._making)

    def _is_due(self, view: ClusterView) -> bool:
        age = self.sources.inputs.clock() - view.made_at
        changed = self.sources.inputs.state.current is not view.snapshot
        is_empty = not view.snapshot.nodes  # Of the start, before the state was read.
        return age > MAX_AGE_SECONDS or (changed and (is_empty or age > MIN_AGE_SECONDS))

    async def _make_view(self) -> ClusterView:
        inputs, at = self.sources.inputs.current_inputs(), self.sources.wall_clock()
        self._view = await run_in_daemon_thread(lambda: make_view(inputs, at), "leadsman-api-view")
        return self._view

    def _made(self, task: asyncio.Task[ClusterView]) -> None:
        self._making = None
        if not task.cancelled():
            task.exception()  # Those who waited have it; unread, asyncio would log it as lost.

    async def run(self) -> None:
        """Until cancelled. A minute of the history that cannot be made is left out and logged."""
        while True:
            self._tick()
            if self.sources.inputs.clock() >= self._next_minute:
                self._next_minute += MINUTE_SECONDS
                await self._keep_minute()
            await asyncio.sleep(TICK_SECONDS)

    def keep_history(self) -> None:
        """Keeps the delays of each minute from now on, unless it does so already."""
        if self._next_minute == float("inf"):
            self._next_minute, at = self.sources.inputs.clock(), self.sources.wall_clock()
            if self.history.medians_at(at) is None:
                self.history = DelayHistory(at)

    async def _keep_minute(self) -> None:
        try:
            view = await self.view()
            await run_in_daemon_thread(lambda: self.history.add(view.at, view.table), "leadsman-api-history")
        except Exception as error:  # Whatever a view stumbles over must not end the extender.
            self._problem.report(error, traceback=True)
        else:
            self._problem.clear()

    def _tick(self) -> None:
        self.decisions.sample()
        revision, newest = self.sources.inputs.state.current.revision, self.decisions.newest
        nodes = ["nodes", "delays"] if revision != self._shown[0] else []
        if sections := [*nodes, "decisions"] if newest is not self._shown[1] else nodes:
            self.streams.send(ChangeEvent(sections, revision))
        self._shown = (revision, newest)
