"""What is decided on the event loop, and what has a worker."""

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from extender.decider import (
    MAX_BRIEF_BOUNDS,
    MAX_BRIEF_NODES,
    SNAPSHOT_SECONDS_PER_NODE,
    Decider,
    DecisionCore,
    is_brief,
)
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.worker_pool import WorkerPool
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import PluginsPolicy, Policy, ScorePluginPolicy
from leadsman.runtime.problem_log import ProblemLog
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.input_sources import InputSources
from leadsman.state.snapshot import NodeState, Snapshot

if TYPE_CHECKING:
    from tests.extender.conftest import Args, Starter

NODES = ("a", "b")
PLAIN = PodInfo("default", "p")
INPUTS = DecisionInputs(Snapshot(), Policy(), 0.0)


def bounds(number: int) -> PodInfo:
    return structs.replace(PLAIN, labels={f"delay_n{at}": "5" for at in range(number)})


@pytest.mark.parametrize("pod", [PLAIN, bounds(MAX_BRIEF_BOUNDS)])
def test_a_pod_with_few_bounds_is_brief(pod: PodInfo) -> None:
    assert is_brief(pod, NODES, INPUTS)


def test_a_pod_with_many_bounds_is_not_brief() -> None:
    assert not is_brief(bounds(MAX_BRIEF_BOUNDS + 1), NODES, INPUTS)


def test_a_pod_that_asks_for_a_device_is_not_brief() -> None:
    pod = structs.replace(PLAIN, devices=DeviceDemand(({"nvidia.com/gpu": 1},)))
    assert not is_brief(pod, NODES, INPUTS)


def test_many_nodes_are_not_brief_in_the_request_or_in_the_state() -> None:
    many = tuple(f"n{at}" for at in range(MAX_BRIEF_NODES + 1))
    in_state = structs.replace(INPUTS, snapshot=Snapshot(dict.fromkeys(many, NodeState())))
    assert not is_brief(PLAIN, many, INPUTS)
    assert not is_brief(PLAIN, NODES, in_state)


def test_plugins_have_a_worker() -> None:
    policy = Policy(plugins=PluginsPolicy(scores=(ScorePluginPolicy("mine"),)))
    assert not is_brief(PLAIN, NODES, structs.replace(INPUTS, policy=policy))


@pytest.mark.parametrize("brief", [True, False])
async def test_a_brief_decision_is_made_on_the_thread_of_the_event_loop(
    starts: "Starter", args: "Args", brief: bool
) -> None:
    threads = []

    def recorded(pod, nodes, inputs):
        threads.append(threading.current_thread())
        return filter_nodes(pod, nodes, inputs)

    async with starts(core=DecisionCore(recorded, score_nodes, lambda *_: brief)) as extender:
        await extender.asked("/filter", args(NODES))
    assert (threads == [threading.current_thread()]) is brief


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
