"""Loop, writer and recorder against a fake API server, with everything that it can do wrong on the way."""

import asyncio
import itertools
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.keeper import STALL_TIMEOUT_SECONDS, Actions, Keeper, KeeperLoops, NodeCache, steady_unix_clock
from controller.labels import LabelReconciler, NodePatcher
from controller.settings import DEFAULT_PATCHES_PER_SECOND
from leadsman.decision.telemetry.taspolicy import TasPolicy
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, NotFound, NotLeader, Unavailable
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.testbed.api_objects import MAX_ANNOTATIONS_BYTES, parse_path
from tests.controller.followed import event_writer, inputs_of, tools
from tests.leadsman.decision.telemetry import tas
from tests.leadsman.decision.telemetry.tas import policy, rule
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

FREE = LabelLimits(max_marked_ratio=1.0, marks_per_second=1e9, hold_seconds=0.0, max_flips_per_hour=10**6)


class Acting:
    """A controller whose facts the test sets."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.api, self.facts, self.now, self.recorder = api, inputs_of(), 1000.0, event_writer(client)
        options = ListOptions(NODES, metadata_only=True)
        self.watched = Reflector(client, options, PartialObjectMetadata, rng=random.Random(1))
        self.nodes = NodeCache(self.watched)
        self.writer = NodePatcher(client, self.nodes, TokenBucket(1e6, 50), clock=lambda: self.now)
        given = tools(client, self.recorder, lambda: self.facts)
        self.has_crd = True
        self.keeper = LabelReconciler(given, self.nodes, self.writer, FREE, lambda: self.has_crd)

    async def step(self, policies: Sequence[TasPolicy], metrics: Mapping[str, Mapping[str, float]]) -> Any:
        """metrics: metric → node → value, all just read."""
        self.now += 1
        self.facts = tas.facts(policies, metrics, self.now)
        await self.keeper.turn()
        return self.keeper.plan

    def labels(self, node: str) -> dict[str, str]:
        """What the API server holds of ours."""
        found = self.api.objects.get(parse_path(NODES.path("", node)))["metadata"].get("labels") or {}
        return {key: value for key, value in found.items() if key != "kubernetes.io/hostname"}

    def patches(self) -> list[Any]:
        """The labels in each, the oldest first."""
        return [asked.body["metadata"].get("labels") for asked in self.api.requests if asked.verb == "patch"]


@asynccontextmanager
async def acting(api: FakeApiServer, *nodes: str) -> AsyncIterator[Acting]:
    """Runs until the block ends; the nodes are listed."""
    for name in nodes:
        api.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"kubernetes.io/hostname": name}}})
    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        one = Acting(api, client)
        async with running(one.watched.run(), one.recorder.run()):
            await until(one.watched.loaded.is_set)
            yield one


@pytest.fixture
async def controller(api: FakeApiServer) -> AsyncIterator[Acting]:
    async with acting(api, "n1", "n2") as one:
        yield one


HOT = {"heat": {"n1": 90, "n2": 10}}
BOTH_HOT = {"heat": {"n1": 90, "n2": 90}}
MARK = policy("hot", deschedule=[rule("heat", "GreaterThan", 80)])


async def test_a_turn_makes_no_more_patches_than_it_has_time_for(controller: Acting) -> None:
    """A turn of two minutes counts as stalled, and its controller is restarted."""
    controller.writer._rate = TokenBucket(0.02, 50)
    hot = policy(labeling=[rule("heat", "GreaterThan", 80, "hot=yes")])
    await controller.step([hot], BOTH_HOT)
    assert len(controller.patches()) == 1
    await controller.step([hot], BOTH_HOT)
    assert controller.labels("n1") == controller.labels("n2") == {"telemetry.aware.scheduling.p/hot": "yes"}


async def test_without_the_crd_of_policies_nothing_is_stopped_and_labels_stay(controller: Acting) -> None:
    await controller.step([MARK], HOT)
    controller.has_crd = False
    await controller.step([], HOT)
    stopped = [family.samples[0].value for family in controller.keeper.families() if "stopped" in family.name]
    assert stopped == [0]
    assert controller.labels("n1") == {"hot": "violating"}


async def test_a_node_that_changed_in_mid_plan_is_planned_again_from_what_stands_there(controller: Acting) -> None:
    """409: nothing that another wrote is lost."""
    controller.api.put("/api/v1/nodes/n1", {"metadata": {"labels": {"other": "x"}}})
    await controller.step([MARK], HOT)
    assert controller.writer.results == Counter(conflict=1)
    await until(lambda: "other" in controller.nodes.current["n1"].metadata.labels)
    await controller.step([MARK], HOT)
    assert controller.labels("n1") == {"other": "x", "hot": "violating"}


async def test_where_one_policys_label_is_refused_another_s_is_set_in_the_same_round(controller: Acting) -> None:
    """The API server takes 256 KiB of annotations: of two records only one fits beside what others left there."""
    first = policy("first", labeling=[rule("heat", "GreaterThan", 80, "a=b")])
    second = policy("second", labeling=[rule("heat", "GreaterThan", 80, "a=b")])
    annotations = {"others": "x" * (MAX_ANNOTATIONS_BYTES - 200)}
    controller.api.put("/api/v1/nodes/n1", {"metadata": {"annotations": annotations}})
    await until(lambda: controller.watched.cut_count)
    await controller.step([first, second], HOT)
    assert controller.labels("n1") == {"telemetry.aware.scheduling.first/a": "b"}
    assert controller.writer.results == {"refused": 2, "done": 1}
    patches = len(controller.patches())
    plan = await controller.step([first, second], HOT)
    assert len(controller.patches()) == patches, "not due yet"
    assert ["annotations: Too long" in each.why for each in plan.withheld] == [True]
    await until(lambda: controller.recorder.written == 1)


async def test_a_refused_change_is_tried_again_when_it_is_due_and_ever_more_rarely(controller: Acting) -> None:
    controller.api.fail("patch", 422, times=3)
    tries = []
    for second in range(60):
        before = len(controller.patches())
        await controller.step([MARK], HOT)
        if len(controller.patches()) > before:
            tries.append(second)
    assert [later - earlier for earlier, later in itertools.pairwise(tries)] == [5, 10, 20]
    assert controller.labels("n1") == {"hot": "violating"}


async def test_a_node_with_too_many_labels_is_left_alone_and_named(controller: Acting) -> None:
    labels = {f"l{number}": "x" * 60 for number in range(1_000)}
    controller.api.put("/api/v1/nodes/n1", {"metadata": {"labels": labels}})
    await until(lambda: any(each.metadata.labels.cut for each in controller.nodes.current.values()))
    plan = await controller.step([MARK], HOT)
    assert "hot" not in controller.labels("n1")
    assert plan.stopped[0].startswith("node n1 is left alone: it has more than 16,384 bytes of labels")


async def test_a_thousand_nodes_get_ten_labels_by_one_patch_each_in_one_turn(api: FakeApiServer) -> None:
    """Written, changed and cleaned. At the default rate of patches that is within ten seconds."""
    nodes = [f"n{number:04}" for number in range(1000)]
    rules = [rule(f"m{number}", "GreaterThan", 0, f"k{number}=low") for number in range(10)]
    more = [rule(f"m{number}", "GreaterThan", 0, f"k{number}=high") for number in range(10)]
    metrics = {f"m{number}": dict.fromkeys(nodes, 5) for number in range(10)}
    assert len(nodes) <= 10 * DEFAULT_PATCHES_PER_SECOND
    async with acting(api, *nodes) as controller:
        for policies, value in (([policy(labeling=rules)], "low"), ([policy(labeling=more)], "high"), ([], None)):
            before = len(controller.patches())
            await controller.step(policies, metrics)
            assert len(controller.patches()) - before == 1000
            wanted = {f"telemetry.aware.scheduling.p/k{number}": value for number in range(10)} if value else {}
            wrong = {node: controller.labels(node) for node in nodes if controller.labels(node) != wanted}
            assert not wrong, controller.writer.results


# When a keeper acts and when it forgets, and what comes of actions.


class Recorded(Keeper):
    """Notes what it does, in order, and acts until it `may_end`."""

    name = "a keeper"

    def __init__(self, **given: Any) -> None:
        self.calls: list[str] = []
        self.may_end, self.leads, self.now = asyncio.Event(), True, 100.0
        self.may_end.set()
        super().__init__(tools(None, leads=lambda: self.leads, clock=lambda: self.now), **given)

    async def keep(self) -> None:
        self.calls.append("keep")
        await self.may_end.wait()

    def forget(self) -> None:
        self.calls.append("forget")


def test_a_wall_clock_that_steps_moves_no_time_of_a_plan() -> None:
    wall, elapsed = [1000.0], [5.0]
    unix_now = steady_unix_clock(lambda: wall[0], lambda: elapsed[0])
    wall[0], elapsed[0] = 90_000.0, 7.0
    assert unix_now() == 1002.0


async def test_the_leader_acts_and_the_other_replicas_forget() -> None:
    keeper = Recorded()
    await keeper.turn()
    keeper.leads = False
    await keeper.turn()
    assert keeper.calls == ["keep", "forget"]


async def test_it_acts_no_more_often_than_it_says_unless_it_is_hurried() -> None:
    class AMinuteApart(Recorded):
        every_seconds, pause_ratio = 60.0, 5.0

    keeper = AMinuteApart()
    for keeper.now in (100.0, 130.0, 160.0, 161.0):
        await keeper.turn()
    assert keeper.calls == ["keep"] * 2
    keeper.hurry()
    await keeper.turn()
    assert keeper.calls == ["keep"] * 3


async def test_a_keeper_whose_turn_does_not_end_is_stalled() -> None:
    now, keeper = 0.0, Recorded()
    keeper.may_end.clear()
    loops = KeeperLoops([keeper], lambda: now)
    loop = asyncio.create_task(loops.loops()["a keeper"])
    await asyncio.sleep(0)
    now = STALL_TIMEOUT_SECONDS
    assert loops.stalled() == []
    now += 1
    assert loops.stalled() == ["a keeper"]
    keeper.may_end.set()
    await until(lambda: loops.stalled() == [])
    loop.cancel()


async def test_a_fault_of_one_keeper_ends_its_turn_and_nothing_else() -> None:
    class Faulty(Recorded):
        async def keep(self) -> None:
            if self.now == 100.0:
                raise KeyError("an odd object")
            await super().keep()

    keeper = Faulty()
    await keeper.turn()
    assert (keeper.calls, keeper.fault.text) == (["forget"], "KeyError: 'an odd object'")
    for keeper.now in (105.0, 110.0):
        await keeper.turn()
    assert (keeper.calls, keeper.fault.text) == (["forget", "keep"], "")


async def test_a_turn_that_the_api_server_fails_is_said_once_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    turns = iter([Unavailable("x"), Unavailable("y"), NotLeader("z"), None])

    class Failing(Recorded):
        problem_texts = ("cannot keep it", "keeps it again")

        async def keep(self) -> None:
            if error := next(turns):
                raise error

        def fail(self) -> None:
            self.calls.append("fail")

    keeper = Failing()
    for _ in range(4):
        await keeper.turn()
    assert keeper.calls == ["fail", "fail"]
    assert caplog.messages == ["cannot keep it: Unavailable: x", "keeps it again"]


@pytest.mark.parametrize(
    ("error", "results", "expected"),
    [
        (NotFound("x"), {"gone": 6, "done": 2}, [1, 2, 3, 4, 1, 2, 3, 4]),
        (Conflict("x"), {"conflict": 6, "done": 2}, [1, 2, 3, 4, 1, 2, 3, 4]),
        (InvalidRequest("x"), {"failed": 6, "done": 2}, [1, 2, 3, 4, 1, 2, 3, 4]),
        (Unavailable("x"), {"failed": 6, "done": 1}, [1, 2, 3, 4, 1, 2, 3]),
        (NotLeader("x"), {}, [1, 1]),
    ],
)
async def test_what_an_action_meets_decides_whether_the_next_is_tried(
    error: ApiError, results: dict[str, int], expected: list[int]
) -> None:
    """Or is tried before it in the next turn."""
    actions, tried = Actions(logging.getLogger(__name__), "cannot act", "acts again"), list[int]()

    async def act(number: int) -> str:
        tried.append(number)
        if number < 4:
            raise error
        return "done"

    for _ in range(2):
        await actions.carry_out([1, 2, 3, 4], act)
    assert tried == expected
    assert actions.results == {("int", result): number for result, number in results.items()}
