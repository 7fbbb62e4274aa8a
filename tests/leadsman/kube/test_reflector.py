"""What a reader of a reflector sees."""

import asyncio

import pytest

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from tests.conftest import Until
from tests.leadsman.kube.conftest import Follow
from tests.leadsman.kube.watched_pods import NEW, WEB, pod
from tests.testbed.scripted_api_server import FakeApiServer

pytestmark = pytest.mark.usefixtures("web")


async def test_a_change_has_the_object_and_the_one_before(api: FakeApiServer, following: Follow, until: Until) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.put(WEB, pod(status={"phase": "Running"}))
        api.delete(WEB)
        await until(lambda: len(pods.told) == 3)
    added, modified, deleted = pods.told
    assert [change.kind for change in pods.told] == [ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED]
    assert added.old is None
    assert (modified.old, modified.object.status.phase) == (added.object, "Running")
    assert (deleted.old, deleted.object.status.phase) == (modified.object, "Running")


async def test_a_view_that_was_taken_does_not_change(api: FakeApiServer, following: Follow, until: Until) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        taken = pods.current
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
    assert {name for _, name in taken} == {"web-0"}
    with pytest.raises(TypeError):
        taken["default", "x"] = taken["default", "web-0"]  # type: ignore[index]


async def test_age_counts_from_the_last_word_of_the_api_server(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    now = 10.0
    async with following(clock=lambda: now, loaded=False) as pods:
        assert pods.age_seconds(now) == float("inf")
        await until(lambda: pods.is_watching)
        now = 15.0
        assert pods.age_seconds(now) == 5.0
        api.send_bookmarks()
        await until(lambda: pods.age_seconds(now) == 0.0)


async def test_changes_are_told_before_loaded(api: FakeApiServer, client: ApiClient) -> None:
    """Who waits for loaded finds everything worked in."""
    told = []
    pods = Reflector(
        client, ListOptions(PODS), PartialObjectMetadata, on_changes=lambda _: told.append(pods.loaded.is_set())
    )
    task = asyncio.create_task(pods.run())
    await asyncio.wait_for(pods.loaded.wait(), 60)
    task.cancel()
    assert told == [False]


async def test_a_fault_of_the_listener_ends_the_run(api: FakeApiServer, client: ApiClient) -> None:
    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Reflector(client, ListOptions(PODS), PartialObjectMetadata, on_changes=broken).run()
