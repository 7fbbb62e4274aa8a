"""What is decided on the event loop, and what has a worker."""

import logging
from typing import TYPE_CHECKING, Any

from extender.decider import (
    SNAPSHOT_SECONDS_PER_NODE,
    Decider,
)
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.wiring import InputSources
from leadsman.state.snapshot import NodeState, Snapshot

if TYPE_CHECKING:
    pass

NODES = ("a", "b")
PLAIN = PodInfo("default", "p")


class _Replaced:
    """A source whose value is replaced."""

    problem = ProblemLog(logging.getLogger(__name__), "", "")

    def __init__(self, current):
        self.current = current


async def test_a_snapshot_serves_for_a_moment_that_grows_with_its_nodes() -> None:
    nodes, seconds = [f"n{at}" for at in range(1_000)], [100.0]
    first, second = (Snapshot(dict.fromkeys(nodes, NodeState()), revision=revision) for revision in (1, 2))
    state, journal, workers = _Replaced(first), Journal(), WorkerPool()
    policy: Any = _Replaced(Policy())
    sources = InputSources(state, policy, DelaySources(DelaySettings(), state, policy), lambda: seconds[0])
    decider = Decider(sources, journal=journal, metrics=ExtenderMetrics(), workers=workers)
    revisions = []
    for elapsed in (0.0, 0.9, 1.1):
        seconds[0] = 100.0 + elapsed * 1_000 * SNAPSHOT_SECONDS_PER_NODE
        await decider.filter(PLAIN, NODES)
        entry = journal.get("default", "p")
        assert entry is not None
        assert entry.filter_inputs is not None
        revisions.append(entry.filter_inputs.snapshot.revision)
        state.current = second
    assert revisions == [1, 1, 2]
