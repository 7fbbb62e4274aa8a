"""Requests the measurements that a decision lacked, after it was answered."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import structs

from extender.worker_pool import WorkerPool
from leadsman.decision.decide import FilterResult
from leadsman.decision.delay import delay_filter
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.runtime.lru import LruCache

_log = logging.getLogger(__name__)

RequestProbes = Callable[[Sequence[tuple[str, str]]], None]
"""Takes node pairs that should be measured soon, the most useful first: (who measures, whom). Must not block."""

MIN_INTERVAL_SECONDS = 0.5
"""Between two requests for pods that got nodes, so that a busy scheduler is not slowed."""

MIN_INTERVAL_UNPLACED_SECONDS = 0.1
"""Between two requests for pods of one namespace that got none: each costs about as much as its filter call."""

MAX_NAMESPACES = 64
"""Of which the last request is remembered."""


_PLACED = ""
"""Instead of a namespace, for all pods that got nodes."""


class ProbeOnDemand:
    """Selects the pairs of one decision at a time; a pod that finds it busy has its turn at its next attempt."""

    def __init__(self, request_probes: RequestProbes | None, workers: WorkerPool) -> None:
        self._request_probes, self._workers = request_probes, workers
        self._task: asyncio.Task[None] | None = None
        self._requested_at: LruCache[str, float] = LruCache(MAX_NAMESPACES)

    def request_after_filter(self, pod: PodInfo, filter_result: FilterResult, inputs: DecisionInputs) -> None:
        """Requests pairs of the nodes that passed; when none did, of those that the delay filter refused."""
        busy = self._task is not None and not self._task.done()
        if self._request_probes is None or busy or not pod.has_delay_bounds:
            return
        whose = _PLACED if filter_result.kept else pod.namespace
        interval = MIN_INTERVAL_SECONDS if filter_result.kept else MIN_INTERVAL_UNPLACED_SECONDS
        if inputs.now - (self._requested_at.get(whose) or float("-inf")) < interval:
            return
        nodes = filter_result.kept or tuple(
            node for node, refusal in filter_result.refused.items() if refusal.plugin == delay_filter.NAME
        )
        self._requested_at.put(whose, inputs.now)
        self._task = asyncio.create_task(
            self._request(self._request_probes, pod, nodes, inputs), name="select probe pairs"
        )

    async def _request(
        self, request_probes: RequestProbes, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs
    ) -> None:
        try:
            stoppable = structs.replace(inputs, checkpoint=self._workers.checkpoint)
            pairs = await self._workers.run(lambda: select_probe_pairs(pod, nodes, stoppable), namespace=pod.namespace)
        except Exception as error:  # It costs a measurement, and must not end the process.
            _log.warning(
                "cannot choose pairs to probe: %s: %s; the next scheduling attempt retries", type(error).__name__, error
            )
            return
        if pairs:
            request_probes(pairs)
