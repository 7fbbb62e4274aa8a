"""A decision within its deadline, or the neutral one, and what is refused rather than promised without proof."""

import json
import time

import pytest
from msgspec import structs

from extender.decider import DecisionCore
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Args, Captured, Labelled, Starter

BOUND = {"delay_node-00000": "25"}
NAMES = ["node-00001", "node-00002", "node-00000"]


def broken(*_):
    raise RuntimeError("a plugin's fault")


def slow(*_):
    time.sleep(0.6)


@pytest.mark.parametrize(
    "core", [DecisionCore(filter_nodes=slow, score_nodes=slow), DecisionCore(filter_nodes=broken, score_nodes=broken)]
)
async def test_without_a_decision_all_nodes_pass_with_equal_scores(starts: Starter, captured: Captured, core) -> None:
    body = captured("names-100-filter")
    async with starts(core=core) as extender:
        answer = await extender.asked("/filter", body)
        scores = await extender.asked("/prioritize", body)
        faults = [extender.count("leadsman_extender_decisions_total", verb="filter", result="neutral", reason=reason)
                  for reason in ("overran", "fault")]  # fmt: skip
    assert answer["NodeNames"] == json.loads(body)["NodeNames"]
    assert {score["Score"] for score in scores} == {5}
    assert sum(faults) == 1


async def test_a_slow_plugin_holds_the_answer_no_longer_than_the_deadline(starts: Starter, captured: Captured) -> None:
    async with starts(core=DecisionCore(filter_nodes=slow)) as extender:
        began = time.monotonic()
        await extender.asked("/filter", captured("names-3-filter"))
        assert 0.2 <= time.monotonic() - began < 0.5


@pytest.mark.parametrize(
    ("core", "reason"),
    [
        (DecisionCore(filter_nodes=slow), "decision exceeded its deadline of 200 ms; see the extender's log"),
        (DecisionCore(filter_nodes=broken), "decision failed with an error; see the extender's log"),
    ],
)
async def test_a_bounded_pod_is_refused_everywhere_when_there_is_no_decision(
    starts: Starter, captured: Captured, labelled: Labelled, core, reason: str
) -> None:
    body = labelled(captured("names-3-filter"), BOUND)
    async with starts(core=core) as extender:
        answer = await extender.asked("/filter", body)
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == dict.fromkeys(NAMES, reason)


async def test_a_preemption_without_a_filter_call_here_can_be_explained(
    starts: Starter, captured: Captured, labelled: Labelled
) -> None:
    """The filter call may have gone to another replica."""
    body = labelled(captured("preempt-names"), BOUND)
    pod = json.loads(body)["Pod"]["metadata"]
    async with starts() as extender:
        await extender.asked("/preempt", body)
        told = await extender.told(f"{pod['namespace']}/{pod['name']}")
    assert "delay to node-00000 was not measured" in told


async def test_a_preemption_does_not_replace_its_own_filter_call(starts: Starter, args: Args) -> None:
    async with starts() as extender:
        await extender.asked("/filter", args(["a", "b"]))
        victims = {"Pod": json.loads(args([]))["Pod"], "NodeNameToMetaVictims": {"a": {"Pods": []}}}
        await extender.asked("/preempt", json.dumps(victims).encode())
        told = await extender.told("ns/p")
    assert "2 of 2 nodes" in told


@pytest.mark.parametrize(("own", "kept"), [("accept", NAMES), ("upper-bound", []), ("reject", []), ("nonsense", [])])
async def test_a_pod_may_waive_its_bound_itself_for_want_of_a_decision(
    starts: Starter, captured: Captured, labelled: Labelled, own: str, kept
) -> None:
    body = labelled(captured("names-3-filter"), BOUND)
    annotated = json.loads(body)
    annotated["Pod"]["metadata"].setdefault("annotations", {})["leadsman.dev/delay-estimate"] = own
    async with starts(core=DecisionCore(filter_nodes=broken)) as extender:
        answer = await extender.asked("/filter", json.dumps(annotated).encode())
    assert answer["NodeNames"] == kept


@pytest.fixture
def facts_seen():
    """The facts of each call, and a core that notes them."""
    seen = []

    def noted(ask):
        def note(pod, nodes, facts):
            seen.append(facts)
            return ask(pod, nodes, facts)

        return note

    return seen, DecisionCore(noted(filter_nodes), noted(score_nodes))


async def test_scores_are_made_on_the_snapshot_that_the_pod_was_filtered_on(
    starts: Starter, captured: Captured, measured: Snapshot, facts_seen
) -> None:
    """Even when the state has moved on in between; freshness is judged by the clock of each call."""
    seen, core = facts_seen
    async with starts(_Moving(measured), core=core) as extender:
        await extender.asked("/filter", captured("names-3-filter"))
        await extender.asked("/prioritize", captured("names-3-prioritize"))
    assert seen[0].snapshot is seen[1].snapshot
    assert seen[0].now < seen[1].now


class _Moving:
    """Another snapshot each time it is read."""

    def __init__(self, first):
        self._first = first

    @property
    def current(self):
        return structs.replace(self._first)
