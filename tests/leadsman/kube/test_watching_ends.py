"""A reflector's watches end in every way that watches do, and are continued or begun again."""

import asyncio
import json

import pytest

from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from tests.leadsman.kube.conftest import NEW, PODS_OF_DEFAULT, WEB, Follow, pod, versions
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("web")


@pytest.mark.parametrize("bookmark", [False, True])
async def test_a_watch_that_is_closed_is_resumed_where_it_was_or_at_the_last_bookmark(
    api: FakeApiServer, following: Follow, bookmark: bool
) -> None:
    async with following() as pods:
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
        if bookmark:
            api.put("/api/v1/nodes/n1", {})
            api.send_bookmarks()
        api.end_watches()
        await until(lambda: len(versions(api)) == 2)
        assert versions(api)[1] == str(api.objects.revision)
        assert pods.names == {"web-0", "web-1"}, "a bookmark is no object"
        assert pods.relists == 1


async def test_a_watch_that_is_reset_within_a_line_is_resumed_and_the_piece_dropped(
    api: FakeApiServer, following: Follow
) -> None:
    async with following() as pods:
        api.reset_watches(b'{"type":"DELETED","object":{"metadata":{"namespace":"default","name":"web-0"')
        await until(lambda: len(versions(api)) == 2)
        assert versions(api)[1] == versions(api)[0]
        assert pods.names == {"web-0"}


async def test_what_stands_before_an_error_counts(api: FakeApiServer, following: Follow) -> None:
    gone = json.dumps({"type": "DELETED", "object": {"metadata": {"name": "web-0", "namespace": "default"}}})
    async with following() as pods:
        api.send_line(gone.encode() + b'\n{"type":"ERROR","object":{"code":500}}\n')
        await until(lambda: not pods.current)


async def test_garbage_on_a_watch_resumes(api: FakeApiServer, following: Follow) -> None:
    async with following() as pods:
        api.send_line(b"<html>\n")
        await until(lambda: len(versions(api)) == 2)
        assert (pods.names, pods.relists, pods.errors["MalformedResponse"]) == ({"web-0"}, 1, 1)


async def test_versions_that_go_back_list_anew(api: FakeApiServer, following: Follow) -> None:
    """etcd was restored from a backup."""
    async with following() as pods:
        api.send_line(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n')
        await until(lambda: pods.relists == 2)


async def test_silence_opens_the_watch_anew_and_a_second_one_lists(api: FakeApiServer, following: Follow) -> None:
    async with following(silence_seconds=0.1) as pods:
        await until(lambda: len(versions(api)) == 2)
        assert pods.relists == 1
        await until(lambda: pods.relists == 2)
        assert pods.errors["StreamSilent"] >= 2


async def test_after_a_long_loss_it_is_listed_anew(api: FakeApiServer, following: Follow) -> None:
    now = 0.0
    async with following(clock=lambda: now, silence_seconds=75) as pods:
        now = 136.0
        api.reset_watches()
        await until(lambda: pods.relists == 2)


# What a reader of a reflector sees.


async def test_a_change_has_the_object_and_the_one_before(api: FakeApiServer, following: Follow) -> None:
    async with following() as pods:
        api.put(WEB, pod(status={"phase": "Running"}))
        api.delete(WEB)
        await until(lambda: len(pods.told) == 3)
    added, modified, deleted = pods.told
    assert [change.kind for change in pods.told] == [ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED]
    assert added.old is None
    assert (modified.old, modified.object.status.phase) == (added.object, "Running")
    assert (deleted.old, deleted.object.status.phase) == (modified.object, "Running")


async def test_a_view_that_was_taken_does_not_change(api: FakeApiServer, following: Follow) -> None:
    async with following() as pods:
        taken = pods.current
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
    assert {name for _, name in taken} == {"web-0"}
    with pytest.raises(TypeError):
        taken["default", "x"] = taken["default", "web-0"]  # type: ignore[index]


async def test_age_counts_from_the_last_word_of_the_api_server(api: FakeApiServer, following: Follow) -> None:
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
    async with running(pods.run()):
        await asyncio.wait_for(pods.loaded.wait(), 60)
    assert told == [False]


async def test_a_fault_of_the_listener_ends_the_run(api: FakeApiServer, client: ApiClient) -> None:
    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Reflector(client, ListOptions(PODS), PartialObjectMetadata, on_changes=broken).run()


# A reflector's lists: whole or not at all, and gentle to the API server.


async def test_a_list_whose_token_expires_on_the_way_begins_anew_in_one_piece(
    api: FakeApiServer, following: Follow
) -> None:
    api.put(NEW, pod())
    api.page_items = 1
    api.fail_after("list", 1, 410)
    async with following() as pods:
        assert pods.names == {"web-0", "web-1"}
        assert pods.problem.text == ""
    assert [asked.query.get("limit") for asked in api.requests[:3]] == ["500", "500", None]


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"items":[]}', b'{"metadata":{"resourceVersion":"9"}}', b"\xff"])
async def test_a_200_that_is_no_list_is_not_taken_for_an_empty_one(api: FakeApiServer, following: Follow, body) -> None:
    async with following() as pods:
        api.fail("list", 200, body=body)
        api.fail_watches(410)
        await until(lambda: pods.relists == 2)
        assert pods.errors["MalformedResponse"] == 1
        assert [change.kind for change in pods.told] == [ChangeType.ADDED]


async def test_an_object_that_is_none_costs_only_itself(api: FakeApiServer, following: Follow) -> None:
    api.put(NEW, {"status": {"containerStatuses": "many"}})
    async with following() as pods:
        assert (pods.names, pods.decode_error_count) == ({"web-0"}, 1)
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
        api.put(NEW, {"status": {"containerStatuses": "many"}})
        await until(lambda: pods.decode_error_count == 2)
        assert pods.names == {"web-0", "web-1"}
        api.fail_watches(410)
        await until(lambda: pods.relists == 2)
        assert pods.names == {"web-0", "web-1"}
        api.delete(NEW)
        await until(lambda: pods.names == {"web-0"})


async def test_a_cached_list_is_taken_at_any_age_first_and_then_not_older_than_seen(
    api: FakeApiServer, following: Follow
) -> None:
    async with following(cached=True) as pods:
        seen = str(api.objects.revision)
        api.fail_watches(410)
        await until(lambda: pods.relists == 2)
    first, second = [asked.query for asked in api.requests if asked.verb == "list"]
    assert first == {"resourceVersion": "0"}
    assert second == {"resourceVersion": seen, "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(("status", "then"), [(504, None), (503, "0")])
async def test_a_cache_that_is_behind_is_passed_over_once_and_one_that_fails_otherwise_is_not(
    api: FakeApiServer, following: Follow, status: int, then: str | None
) -> None:
    """504: Too large resource version. 5,000 agents that lost the API server would bring it down again."""
    api.fail("list", status)
    async with following(cached=True):
        pass
    assert versions(api, "list") == ["0", then]


async def test_a_page_of_too_many_bytes_is_asked_for_in_halves_until_it_fits(
    api: FakeApiServer, following: Follow
) -> None:
    for number in range(10):
        api.put(f"{PODS_OF_DEFAULT}/more-{number}", pod(metadata={"annotations": {"big": "x" * 3_000_000}}))
    async with following() as pods:
        assert len(pods.current) == 11
        assert pods.cut_count == 10
    limits = [int(asked.query["limit"]) for asked in api.requests if asked.verb == "list"]
    assert limits[0] == 500
    assert min(limits) == 1, "three of them have 9 MB"


async def test_an_object_larger_than_any_call_takes_is_no_empty_list(api: FakeApiServer, following: Follow) -> None:
    api.put(NEW, pod(metadata={"annotations": {"big": "x" * (17 << 20)}}))
    async with following(loaded=False) as pods:
        await until(lambda: pods.errors["ResponseTooLarge"])
        assert not pods.loaded.is_set()
