"""Requests the measurements that a decision lacked, after it was answered."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from msgspec import structs

from extender.worker_pool import WorkerPool
from leadsman.decision.decide import FilterResult
from leadsman.decision.delay import bounds, delay_filter
from leadsman.decision.delay.probe_pairs import select_probe_pairs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo

_log = logging.getLogger(__name__)

RequestProbes = Callable[[Sequence[tuple[str, str]]], None]
"""Takes node pairs that should be measured soon, the most useful first: (who measures, whom). Must not block."""

MIN_INTERVAL_SECONDS = 0.5
"""Between two requests for pods that got nodes, so that a busy scheduler is not slowed. A pod that got none does not
wait."""


class ProbeOnDemand:
    """Selects the pairs of one decision at a time; a pod that finds it busy has its turn at its next attempt."""

    def __init__(self, request_probes: RequestProbes | None, workers: WorkerPool) -> None:
        self._request_probes, self._workers = request_probes, workers
        self._task: asyncio.Task[None] | None = None
        self._requested_at = float("-inf")

    def request_after_filter(self, pod: PodInfo, filter_result: FilterResult, inputs: DecisionInputs) -> None:
        """Requests pairs of the nodes that passed; when none did, of those that the delay filter refused."""
        busy = self._task is not None and not self._task.done()
        if self._request_probes is None or busy or not bounds.has_bounds(pod):
            return
        if filter_result.kept and inputs.now - self._requested_at < MIN_INTERVAL_SECONDS:
            return
        nodes = filter_result.kept or tuple(
            node for node, refusal in filter_result.refused.items() if refusal.plugin == delay_filter.NAME
        )
        self._requested_at = inputs.now
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
