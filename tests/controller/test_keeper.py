"""When a keeper acts and when it forgets, and what comes of actions."""

import asyncio
import logging
from typing import Any

import pytest

from controller.keeper import STALL_TIMEOUT_SECONDS, Actions, Keeper, KeeperLoops
from leadsman.kube.errors import ApiError, Conflict, InvalidRequest, NotFound, NotLeader, Unavailable
from tests.conftest import Until
from tests.controller.followed import tools


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


class EverywhereAMinuteApart(Recorded):
    on_all_replicas = True
    every_seconds = 60.0
    pause_ratio = 5.0


async def test_the_leader_acts_and_the_other_replicas_forget() -> None:
    keeper = Recorded()
    await keeper.turn()
    keeper.leads = False
    await keeper.turn()
    assert keeper.calls == ["keep", "forget"]


async def test_it_acts_no_more_often_than_it_says_unless_it_is_hurried() -> None:
    keeper = EverywhereAMinuteApart()
    for keeper.now in (100.0, 130.0, 160.0, 161.0):
        await keeper.turn()
    assert keeper.calls == ["keep"] * 2
    keeper.hurry()
    await keeper.turn()
    assert keeper.calls == ["keep"] * 3


async def test_a_keeper_whose_turn_does_not_end_is_stalled(until: Until) -> None:
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
    ("error", "result", "goes_on"),
    [
        (NotFound("x"), "gone", True),
        (Conflict("x"), "conflict", True),
        (InvalidRequest("x"), "failed", True),
        (Unavailable("x"), "failed", False),
        (NotLeader("x"), None, False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_an_action_meets_decides_whether_the_next_is_tried(
    error: ApiError, result: str | None, goes_on: bool
) -> None:
    actions = Actions(logging.getLogger(__name__), "cannot act", "acts again")

    async def act(number: int) -> str:
        if number == 1:
            raise error
        return "done"

    await actions.carry_out([1, 2], act)
    expected = {("int", result): 1} if result else {}
    assert actions.results == expected | ({("int", "done"): 1} if goes_on else {})
