"""What a decision turned on is asked for, after the answer and never at its cost."""

from typing import TYPE_CHECKING

import pytest

from extender.decider import MIN_INTERVAL_SECONDS, ProbeOnDemand
from extender.worker_pool import WorkerPool
from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.records import Heartbeat, Latency
from leadsman.state.snapshot import NodeState, Snapshot

if TYPE_CHECKING:
    pass

BOUND = PodInfo("ns", "p", labels={"delay_ref": "5"})


@pytest.fixture
def workers():
    made = WorkerPool()
    yield made
    made.close()


def facts(now=100.0):
    """Three fresh nodes that measured nothing."""
    state = NodeState(heartbeat=Heartbeat(1, 1, 5.0), latency=Latency({}), changed_at=99.0)
    return DecisionInputs(Snapshot(dict.fromkeys(("ref", "a", "b"), state)), Policy(), now)


async def asked(asking, pod, found):
    asking.request_after_filter(pod, filter_nodes(pod, ["a", "b"], found), found)
    if asking._task:
        await asking._task


async def test_a_pod_that_found_no_node_asks_for_the_pairs_that_may_let_it_pass(workers) -> None:
    told = []
    await asked(ProbeOnDemand(told.append, workers), BOUND, facts())
    assert told == [(("a", "ref"), ("b", "ref"))]


async def test_pods_that_got_nodes_ask_seldom_and_a_waiting_one_at_once(workers) -> None:
    told = []
    asking, kept = ProbeOnDemand(told.append, workers), FilterResult(("a",), {})
    for now in (100.0, 100.0 + MIN_INTERVAL_SECONDS / 2, 100.0 + MIN_INTERVAL_SECONDS):
        asking.request_after_filter(BOUND, kept, facts(now))
        assert asking._task is not None
        await asking._task
    assert told == [(("a", "ref"),)] * 2
    await asked(asking, BOUND, facts(100.1))
    assert len(told) == 3


async def test_what_goes_wrong_is_logged_and_ends_nothing(workers, caplog: pytest.LogCaptureFixture) -> None:
    found = facts()
    asking = ProbeOnDemand(lambda pairs: None, workers)
    asking.request_after_filter(BOUND, filter_nodes(BOUND, ["a"], found), _Broken(found))  # type: ignore[arg-type]
    assert asking._task is not None
    await asking._task
    assert "cannot choose pairs to probe: TypeError" in caplog.text


class _Broken:
    """Facts that lack what is needed."""

    def __init__(self, found):
        self.now = found.now
