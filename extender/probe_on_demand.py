"""Asks for measurements that a decision turned on, after its answer."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from extender.worker_pool import WorkerPool
from leadsman.decision.decide import FilterResult
from leadsman.decision.delay import bounds, delay_filter
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo

_log = logging.getLogger(__name__)

RequestProbes = Callable[[Sequence[tuple[str, str]]], None]
"""Takes pairs that should be measured soon, the most useful first: who should, and whom. Must not block."""

MIN_INTERVAL_SECONDS = 0.5
"""Between two askings for pods that got nodes, so that a busy scheduler is not slowed; one that waits asks at once."""


class ProbeOnDemand:
    """One at a time. What is left out is asked for at the next attempt."""

    def __init__(self, ask: RequestProbes | None, workers: WorkerPool) -> None:
        self._ask, self._workers = ask, workers
        self._task: asyncio.Task[None] | None = None
        self._asked_at = float("-inf")

    def request_after_filter(self, pod: PodInfo, judged: FilterResult, facts: DecisionInputs) -> None:
        """The pairs of the nodes that passed; when none did, of those that the delay filter refused."""
        busy = self._task is not None and not self._task.done()
        if self._ask is None or busy or not bounds.has_bounds(pod):
            return
        if judged.kept and facts.now - self._asked_at < MIN_INTERVAL_SECONDS:
            return
        nodes = judged.kept or tuple(node for node, why in judged.refused.items() if why.plugin == delay_filter.NAME)
        self._asked_at = facts.now
        self._task = asyncio.create_task(self._request(self._ask, pod, nodes, facts), name="ask for measurements")

    async def _request(self, ask: RequestProbes, pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> None:
        try:
            pairs = await self._workers.run(lambda: select_probe_pairs(pod, nodes, facts))
        except Exception as error:  # It costs a measurement, and must not end the process.
            _log.warning("not asked for measurements: %s: %s", type(error).__name__, error)
            return
        if pairs:
            ask(pairs)
