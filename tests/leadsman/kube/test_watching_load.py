"""A reflector under load, without rights, without a server."""

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from leadsman.kube import client
from tests.testbed.scripted_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.leadsman.kube.conftest import Follow

pytestmark = pytest.mark.usefixtures("web")


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_obeyed(api: FakeApiServer, following: "Follow", until: "Until", status: int) -> None:
    api.fail("list", status, retry_after_seconds=1)
    began = asyncio.get_running_loop().time()
    async with following():
        assert asyncio.get_running_loop().time() - began >= 1


class Ceilings(random.Random):
    """What pauses were drawn from 0 to, which is full jitter; they take no time."""

    def __init__(self):
        super().__init__(1)
        self.drawn = []

    def uniform(self, low, high):
        assert low == 0
        self.drawn.append(high)
        return 0.0


async def test_failures_in_a_row_make_the_pauses_longer_up_to_the_longest(
    api: FakeApiServer, following: "Follow"
) -> None:
    rng = Ceilings()
    api.fail("list", 500, times=6)
    async with following(longest_pause_seconds=4.0, rng=rng):
        assert rng.drawn == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


async def test_a_watch_that_lived_makes_the_next_pause_short_again(
    api: FakeApiServer, following: "Follow", until: "Until"
) -> None:
    rng, now = Ceilings(), 0.0
    api.fail("list", 500, times=6)
    async with following(longest_pause_seconds=4.0, rng=rng, clock=lambda: now):
        await until(lambda: api.watches)
        now = 5.0
        api.fail("watch", 500, times=2)
        api.fail_watches(500)
        await until(lambda: len(rng.drawn) == 9)
    assert rng.drawn[6:] == [0.5, 1.0, 2.0]


async def test_a_watch_that_is_closed_as_soon_as_it_begins_is_a_failure(
    api: FakeApiServer, following: "Follow", until: "Until"
) -> None:
    """Otherwise a proxy that does so would be asked without a pause."""
    async with following() as pods:
        await until(lambda: api.watches)
        api.end_watches()
        await until(lambda: pods.errors["Unavailable"] == 1)
        assert "closed the watch within 1 s" in pods.problem.text


async def test_a_line_without_an_end_is_not_held_for_ever(
    api: FakeApiServer, following: "Follow", until: "Until", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LONGEST_LINE_BYTES", 1000)
    async with following() as pods:
        await until(lambda: api.watches)
        api.send_line(b"x" * 2000)
        await until(lambda: pods.errors["MalformedResponse"])
