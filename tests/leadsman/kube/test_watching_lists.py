"""A reflector's lists: whole or not at all, and gentle to the API server."""

import pytest

from leadsman.kube.object_changes import ChangeType
from tests.conftest import Until
from tests.leadsman.kube.conftest import Follow
from tests.leadsman.kube.watched_pods import NEW, PODS_OF_DEFAULT, pod, versions
from tests.testbed.scripted_api_server import FakeApiServer

pytestmark = pytest.mark.usefixtures("web")


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


@pytest.mark.parametrize(
    "body",
    [
        *[b"<html>", b"{}", b'{"items":[]}', b'{"metadata":{"resourceVersion":"9"}}', b"\xff"],
    ],
)
async def test_a_200_that_is_no_list_is_not_taken_for_an_empty_one(
    api: FakeApiServer, following: Follow, until: Until, body
) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.fail("list", 200, body=body)
        api.fail_watches(410)
        await until(lambda: pods.relists == 2)
        assert pods.errors["MalformedResponse"] == 1
        assert [change.kind for change in pods.told] == [ChangeType.ADDED]


async def test_an_object_that_is_none_costs_only_itself(api: FakeApiServer, following: Follow, until: Until) -> None:
    api.put(NEW, {"status": {"containerStatuses": "many"}})
    async with following() as pods:
        assert (pods.names, pods.decode_error_count) == ({"web-0"}, 1)
        await until(lambda: api.watches)
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
        api.put(NEW, {"status": {"containerStatuses": "many"}})
        await until(lambda: pods.decode_error_count == 2)
        assert pods.names == {"web-0", "web-1"}
        api.delete(NEW)
        await until(lambda: pods.names == {"web-0"})


async def test_a_cached_list_is_taken_at_any_age_first_and_then_not_older_than_seen(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    async with following(cached=True) as pods:
        await until(lambda: api.watches)
        seen = str(api.objects.revision)
        api.fail_watches(410)
        await until(lambda: pods.relists == 2)
    first, second = [asked.query for asked in api.requests if asked.verb == "list"]
    assert first == {"resourceVersion": "0"}
    assert second == {"resourceVersion": seen, "resourceVersionMatch": "NotOlderThan"}


async def test_a_cache_that_is_behind_is_passed_over_once(api: FakeApiServer, following: Follow) -> None:
    """504: Too large resource version."""
    api.fail("list", 504)
    async with following(cached=True):
        pass
    assert [asked.query for asked in api.requests if asked.verb == "list"][:2] == [
        {"resourceVersion": "0"},
        {"limit": "500"},
    ]


async def test_a_cached_list_that_fails_otherwise_is_not_asked_of_etcd(api: FakeApiServer, following: Follow) -> None:
    """5,000 agents that lost the API server would bring it down again."""
    api.fail("list", 503)
    async with following(cached=True):
        pass
    assert versions(api, "list") == ["0", "0"]


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


async def test_an_object_larger_than_any_call_takes_is_no_empty_list(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    api.put(NEW, pod(metadata={"annotations": {"big": "x" * (17 << 20)}}))
    async with following(loaded=False) as pods:
        await until(lambda: pods.errors["ResponseTooLarge"])
        assert not pods.loaded.is_set()
