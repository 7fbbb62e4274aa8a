"""When a step acts, and when it forgets."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from controller.steps import STALL_TIMEOUT_SECONDS, Step, StepRunner

if TYPE_CHECKING:
    from tests.conftest import Until


class Recorded:
    """What a step did, in order. listed: what `needs` has."""

    def __init__(self, **fields: Any) -> None:
        self.calls: list[str] = []
        self.loaded = asyncio.Event()
        self.step = Step("a step", self._act, lambda: self.calls.append("forget"), **fields)

    async def _act(self) -> None:
        self.calls.append("act")


async def test_the_leader_acts_and_the_other_replicas_forget() -> None:
    recorded = Recorded()
    await recorded.step.take(is_leader=True)
    await recorded.step.take(is_leader=False)
    assert recorded.calls == ["act", "forget"]


async def test_a_step_of_all_replicas_acts_on_each() -> None:
    recorded = Recorded(on_all_replicas=True)
    await recorded.step.take(is_leader=False)
    assert recorded.calls == ["act"]


async def test_a_step_waits_for_what_it_needs() -> None:
    reflector: Any = Recorded()
    recorded = Recorded(needs=[reflector])
    await recorded.step.take(is_leader=True)
    assert recorded.calls == []
    reflector.loaded.set()
    await recorded.step.take(is_leader=True)
    assert recorded.calls == ["act"]


async def test_a_step_that_does_not_end_is_stalled(until: "Until") -> None:
    now, hangs = 0.0, asyncio.Event()
    runner = StepRunner([Step("hang", hangs.wait)], lambda: True, lambda: now)
    loop = asyncio.create_task(runner.loops()["hang"])
    await asyncio.sleep(0)
    now = STALL_TIMEOUT_SECONDS
    assert runner.stalled() == []
    now += 1
    assert runner.stalled() == ["hang"]
    hangs.set()
    await until(lambda: runner.stalled() == [])
    loop.cancel()


async def test_what_a_step_raises_ends_its_loop() -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await StepRunner([Step("fail", fail)], lambda: True).loops()["fail"]
