"""A decision within its deadline, or the neutral one, and what is refused rather than promised without proof."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from msgspec import structs

from extender.decider import SNAPSHOT_SECONDS_PER_NODE, Decider, DecisionCore
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.replay.judge import Judge, Result
from extender.worker_pool import WorkerPool
from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs, DeviceInputs, Reservation
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.sources.delay.delay_sources import DelaySettings, DelaySources
from leadsman.sources.wiring import InputSources
from leadsman.state.snapshot import NodeState, Snapshot
from tests.extender.conftest import Fixed, args, captured, labelled, starts

BOUND = {"delay_node-00000": "25"}
GB, I915, MEMORY = 10**9, "gpu.intel.com/i915", "gpu.intel.com/memory.max"
ONE_GB, FIVE_GB = (DeviceDemand(({I915: 1, MEMORY: amount * GB},)) for amount in (1, 5))
NAMES = ["node-00001", "node-00002", "node-00000"]


def broken(*_):
    raise RuntimeError("a plugin's fault")


def slow(_pod: PodInfo, _nodes: Sequence[str], facts: DecisionInputs) -> None:
    """Ends when its deadline has passed: what ends sooner is delivered, also where the event loop is late itself."""
    while True:
        facts.checkpoint()
        time.sleep(0.01)


@pytest.mark.parametrize(("ask", "reason"), [(slow, "overran"), (broken, "fault")])
async def test_without_a_decision_all_nodes_pass_with_equal_scores(ask, reason: str) -> None:
    body = captured("names-100-filter")
    async with starts(core=DecisionCore(filter_nodes=ask, score_nodes=ask)) as extender:
        answer = await extender.asked("/filter", body)
        scores = await extender.asked("/prioritize", body)
        labels = {"verb": "filter", "result": "neutral", "reason": reason}
        assert extender.count("leadsman_extender_decisions_total", **labels) == 1
    assert answer["NodeNames"] == json.loads(body)["NodeNames"]
    assert {score["Score"] for score in scores} == {5}


async def test_a_slow_plugin_holds_the_answer_no_longer_than_the_deadline() -> None:
    answered = threading.Event()

    def until_answered(*_):
        answered.wait(10)

    async with starts(core=DecisionCore(filter_nodes=until_answered)) as extender:
        began = time.monotonic()
        await extender.asked("/filter", captured("names-3-filter"))
        assert 0.2 <= time.monotonic() - began < 10
        answered.set()


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (slow, "decision exceeded its deadline of 200 ms; see the extender's log"),
        (broken, "decision failed with an error; see the extender's log"),
    ],
)
async def test_a_bounded_pod_is_refused_everywhere_when_there_is_no_decision(ask, reason: str) -> None:
    body = labelled(captured("names-3-filter"), BOUND)
    async with starts(core=DecisionCore(filter_nodes=ask)) as extender:
        answer = await extender.asked("/filter", body)
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(NAMES, reason)


async def test_a_preemption_without_a_filter_call_here_can_be_explained() -> None:
    """The filter call may have gone to another replica."""
    body = labelled(captured("preempt-names"), BOUND)
    pod = json.loads(body)["Pod"]["metadata"]
    async with starts() as extender:
        await extender.asked("/preempt", body)
        told = await extender.told(f"{pod['namespace']}/{pod['name']}")
    assert "delay to node-00000 was not measured" in told


async def test_a_preemption_does_not_replace_its_own_filter_call() -> None:
    async with starts() as extender:
        await extender.asked("/filter", args(["a", "b"]))
        victims = {"Pod": json.loads(args([]))["Pod"], "NodeNameToMetaVictims": {"a": {"Pods": []}}}
        await extender.asked("/preempt", json.dumps(victims).encode())
        told = await extender.told("ns/p")
    assert "2 of 2 nodes" in told


@pytest.mark.parametrize(("own", "kept"), [("accept", NAMES), ("upper-bound", []), ("reject", []), ("nonsense", [])])
async def test_a_pod_may_waive_its_bound_itself_for_want_of_a_decision(own: str, kept) -> None:
    body = labelled(captured("names-3-filter"), BOUND)
    annotated = json.loads(body)
    annotated["Pod"]["metadata"].setdefault("annotations", {})["leadsman.dev/delay-estimate"] = own
    async with starts(core=DecisionCore(filter_nodes=broken)) as extender:
        answer = await extender.asked("/filter", json.dumps(annotated).encode())
    assert answer["NodeNames"] == kept


async def test_scores_are_made_on_the_snapshot_that_the_pod_was_filtered_on(measured: Snapshot) -> None:
    """Even when the state has moved on in between; freshness is judged by the clock of each call."""
    seen = list[DecisionInputs]()

    def noted(ask: Any) -> Any:
        def note(pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> Any:
            seen.append(facts)
            return ask(pod, nodes, facts)

        return note

    async with starts(_Moving(measured), core=DecisionCore(noted(filter_nodes), noted(score_nodes))) as extender:
        await extender.asked("/filter", captured("names-3-filter"))
        await extender.asked("/prioritize", captured("names-3-prioritize"))
    assert seen[0].snapshot is seen[1].snapshot
    assert seen[0].now < seen[1].now


def deciding_on(inputs: DecisionInputs, ask: Any, reservations: Any) -> Decider:
    return Decider(
        Mock(current_inputs=lambda: inputs),
        journal=Journal(),
        metrics=ExtenderMetrics(),
        workers=WorkerPool(),
        core=DecisionCore(filter_nodes=ask),
        reservations=reservations,
    )


async def test_a_pod_may_evict_the_one_that_has_the_part_of_the_card_that_it_asks_for() -> None:
    """Also while the victim's reservation still counts; and a replay gives the same answer."""
    card = NodeDevices({I915: 9, MEMORY: 8 * GB}, {"gpu.intel.com/cards": "card0"})
    pods = {"n1": {"victim": FIVE_GB}, "n2": {"small": ONE_GB, "large": FIVE_GB}}
    nodes = {node: structs.replace(card, pods=each) for node, each in pods.items()}
    devices = DeviceInputs(True, nodes, (Reservation("victim", FIVE_GB),))
    inputs = DecisionInputs(Snapshot(), Policy(), time.monotonic(), devices=devices)
    decider, observed = deciding_on(inputs, filter_nodes, Mock(read=AsyncMock(return_value=inputs))), list[Any]()
    decider._observers = (observed.append,)
    vip = PodInfo("default", "vip", "vip", devices=FIVE_GB)
    answer = await decider.preempt(vip, {"n1": ["victim"], "n2": ["small"]})
    assert answer.kept == ("n1",)
    await asyncio.sleep(0)
    assert Judge().judge(observed[0]).result is Result.AGREE


async def test_a_decision_that_failed_is_not_made_again_when_reservations_change() -> None:
    inputs, tried = DecisionInputs(Snapshot(), Policy(), time.monotonic()), list[PodInfo]()

    def broken(pod: PodInfo, *_) -> Any:
        tried.append(pod)
        raise ValueError

    reserve, settle, changed = AsyncMock(return_value=(inputs, 1)), AsyncMock(), AsyncMock(return_value=True)
    reservations = Mock(reserve=reserve, settle=settle, wait_for_change=changed, read=AsyncMock(return_value=inputs))
    decider = deciding_on(inputs, broken, reservations)
    await decider.filter(PodInfo("default", "p", labels={"delay_edge-1": "5"}), ("a", "b"))
    assert len(tried) == 1


async def test_a_caller_who_leaves_keeps_no_reservation() -> None:
    deciding, left, settled = asyncio.Event(), threading.Event(), list[Sequence[str]]()
    loop = asyncio.get_running_loop()

    def until_left(*_):
        loop.call_soon_threadsafe(deciding.set)
        left.wait(10)

    async def settle(pod: PodInfo, order: int, kept: Sequence[str]) -> None:
        settled.append(kept)

    inputs = DecisionInputs(Snapshot(), Policy(), time.monotonic())
    decider = deciding_on(inputs, until_left, Mock(reserve=AsyncMock(return_value=(inputs, 1)), settle=settle))
    asking = asyncio.create_task(decider.filter(PodInfo("default", "p"), ("a", "b")))
    await deciding.wait()
    asking.cancel()
    await asyncio.wait([asking])
    left.set()
    assert settled == [()]


class _Moving:
    """Another snapshot each time it is read."""

    def __init__(self, first):
        self._first = first

    @property
    def current(self):
        return structs.replace(self._first)


async def test_a_snapshot_serves_for_a_moment_that_grows_with_its_nodes() -> None:
    nodes, now = [f"n{at}" for at in range(1_000)], 100.0
    first, second = (Snapshot(dict.fromkeys(nodes, NodeState()), revision=revision) for revision in (1, 2))
    state, journal = Fixed(first), Journal()
    policy: Any = Fixed(Policy())
    sources = InputSources(state, policy, DelaySources(DelaySettings(), state, policy), lambda: now)
    decider = Decider(sources, journal=journal, metrics=ExtenderMetrics(), workers=WorkerPool())
    revisions = []
    for elapsed in (0.0, 0.9, 1.1):
        now = 100.0 + elapsed * 1_000 * SNAPSHOT_SECONDS_PER_NODE
        await decider.filter(PodInfo("default", "p"), ("a", "b"))
        entry = journal.get("default", "p")
        assert entry is not None
        assert entry.filter_inputs is not None
        revisions.append(entry.filter_inputs.snapshot.revision)
        state.current = second
    assert revisions == [1, 1, 2]
