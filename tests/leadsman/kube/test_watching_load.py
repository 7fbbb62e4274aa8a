"""A reflector under load, without rights, without a server, without a name that resolves."""

import asyncio
import random
import socket

import pytest
from yarl import URL

from leadsman.kube import client
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.object_changes import ChangeType
from tests.leadsman.kube.conftest import PODS_OF_DEFAULT, Follow, pod
from tests.testbed.dns_names import Names
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("web")


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_obeyed(api: FakeApiServer, following: Follow, status: int) -> None:
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
    api: FakeApiServer, following: Follow
) -> None:
    rng = Ceilings()
    api.fail("list", 500, times=6)
    async with following(longest_pause_seconds=4.0, rng=rng):
        assert rng.drawn == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


async def test_a_watch_that_lived_makes_the_next_pause_short_again(api: FakeApiServer, following: Follow) -> None:
    rng, now = Ceilings(), 0.0
    api.fail("list", 500, times=6)
    async with following(longest_pause_seconds=4.0, rng=rng, clock=lambda: now):
        now = 5.0
        api.fail("watch", 500, times=2)
        api.fail_watches(500)
        await until(lambda: len(rng.drawn) == 9)
    assert rng.drawn[6:] == [0.5, 1.0, 2.0]


async def test_a_watch_that_is_closed_as_soon_as_it_begins_is_a_failure(api: FakeApiServer, following: Follow) -> None:
    """Otherwise a proxy that does so would be asked without a pause."""
    async with following() as pods:
        api.end_watches()
        await until(lambda: pods.errors["Unavailable"] == 1)
        assert "closed the watch within 1 s" in pods.problem.text


async def test_a_line_without_an_end_is_not_held_for_ever(
    api: FakeApiServer, following: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LONGEST_LINE_BYTES", 1000)
    async with following() as pods:
        api.send_line(b"x" * 2000)
        await until(lambda: pods.errors["MalformedResponse"])


STORM = (429, 500, 410, 503)


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_of_refusals_loses_no_change_and_makes_none_up(
    api: FakeApiServer, following: Follow, seed: int
) -> None:
    """Lists and watches are refused, watches end, versions are compacted away, while pods come and go."""
    rng, kept = random.Random(seed), set[str]()
    async with following() as pods:
        for number in range(30):
            for verb in ("list", "watch"):
                api.fail(verb, rng.choice(STORM), times=rng.randrange(2), retry_after_seconds=0)
            rng.choice([api.end_watches, api.reset_watches, api.compact, lambda: api.fail_watches(rng.choice(STORM))])()
            api.put(f"{PODS_OF_DEFAULT}/new-{number}", pod())
            if rng.random() < 0.5:
                api.delete(f"{PODS_OF_DEFAULT}/new-{number}")
            else:
                kept.add(f"new-{number}")
            await asyncio.sleep(rng.random() / 100)
        await until(lambda: pods.names == {"web-0", *kept})
        gone = [each.object.metadata.name for each in pods.told if each.kind is ChangeType.DELETED]
        assert not {"web-0", *kept} & set(gone)


async def test_dns_that_fails_is_named_and_a_name_of_two_families_is_reached_by_the_one_that_answers(
    api: FakeApiServer, following: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = URL(api.url).port
    assert port
    names = Names(monkeypatch, port)
    async with (
        ApiClient(ApiAccess(f"http://{names.name}:{port}")) as client,
        following(client=client, loaded=False) as pods,
    ):
        await until(lambda: pods.errors["Unavailable"] > 1)
        assert names.name in pods.problem.text
        assert not pods.loaded.is_set()
        names.addresses = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))  # nobody listens on ::1
        await until(lambda: pods.names == {"web-0"})
        assert not pods.problem.text
