"""The fake API server's scripts, seen by a plain HTTP client. What it has in common with a real one: test_contract."""

import asyncio
import json

import aiohttp
import pytest

from leadsman.testbed.fake_api_server import FakeApiServer

POD = "/api/v1/namespaces/default/pods/web-0"
PODS = "/api/v1/pods"
WATCH = {"watch": "1", "allowWatchBookmarks": "true"}


@pytest.fixture
async def api():
    async with FakeApiServer() as one:
        yield one


@pytest.fixture
async def http(api):
    async with aiohttp.ClientSession(api.url, timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


async def line(answer):
    return json.loads(await answer.content.readline())


async def test_a_reset_is_a_reset_and_no_end(api, http) -> None:
    async with http.get(PODS, params=WATCH) as answer:
        api.reset_watches(b'{"type":')
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


async def test_a_close_is_a_clean_end(api, http) -> None:
    async with http.get(PODS, params=WATCH) as answer:
        api.put(POD, {})
        api.end_watches()
        assert [json.loads(one)["type"] for one in (await answer.read()).splitlines()] == ["ADDED"]


async def test_a_watch_ends_after_the_time_it_asked_for(http) -> None:
    async with http.get(PODS, params=WATCH | {"timeoutSeconds": "0.1"}) as answer:
        assert await answer.read() == b""


async def test_bookmarks_come_to_who_asked_for_them(api, http) -> None:
    async with http.get(PODS, params={"watch": "1"}) as without, http.get(PODS, params=WATCH) as with_them:
        api.send_bookmarks()
        api.end_watches()
        assert await without.read() == b""
        assert (await line(with_them))["object"]["metadata"]["resourceVersion"] == str(api.objects.revision)


async def test_a_failure_is_for_its_verb_and_as_often_as_said(api, http) -> None:
    api.fail("list", 503, times=2, retry_after_seconds=7)
    api.put(POD, {})
    async with http.get(POD) as got:
        assert got.status == 200
    for status, wait in ((503, "7"), (503, "7"), (200, None)):
        async with http.get(PODS) as listed:
            assert (listed.status, listed.headers.get("Retry-After")) == (status, wait)


async def test_silence_holds_answers_and_streams_until_it_heals(api, http) -> None:
    async with http.get(PODS, params=WATCH) as answer:
        api.silence()
        api.put(POD, {})
        asked = asyncio.create_task(http.get(PODS))
        said = asyncio.create_task(line(answer))
        done, _ = await asyncio.wait({asked, said}, timeout=0.1)
        assert not done
        api.heal()
        assert (await said)["type"] == "ADDED"
        (await asked).release()


async def test_who_shows_another_token_is_not_let_in(api, http) -> None:
    api.token = "t0ken"
    for token, status in (("", 401), ("Bearer other", 401), ("Bearer t0ken", 200)):
        async with http.get(PODS, headers={"Authorization": token} if token else {}) as answer:
            assert answer.status == status


async def test_the_pods_of_a_dropped_node_are_gone_and_watchers_told(api, http) -> None:
    api.put(POD, {"spec": {"nodeName": "n1"}})
    api.put("/api/v1/namespaces/default/pods/web-1", {"spec": {"nodeName": "n2"}})
    async with http.get(PODS, params=WATCH) as answer:
        api.drop_node("n1")
        gone = await line(answer)
    assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "web-0")
    async with http.get(PODS) as listed:
        assert [one["metadata"]["name"] for one in (await listed.json())["items"]] == ["web-1"]


async def test_what_was_compacted_can_neither_be_watched_nor_continued(api, http) -> None:
    api.put(POD, {})
    api.put("/api/v1/namespaces/default/pods/web-1", {})
    async with http.get(PODS, params={"limit": "1"}) as listed:
        token = (await listed.json())["metadata"]["continue"]
    api.compact()
    for query in ({"limit": "1", "continue": token}, WATCH | {"resourceVersion": "2"}):
        async with http.get(PODS, params=query) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_every_request_is_remembered(api, http) -> None:
    async with http.patch(POD, json={"a": 1}, headers={"Content-Type": "application/merge-patch+json"}):
        pass
    (asked,) = api.requests
    assert (asked.verb, asked.path, asked.body, asked.content_type) == (
        "patch",
        POD,
        {"a": 1},
        "application/merge-patch+json",
    )


async def test_a_write_is_reported_with_its_request_and_the_object_it_left() -> None:
    written = []
    async with (
        FakeApiServer(on_write=lambda request, left: written.append((request.verb, request.token, left))) as api,
        aiohttp.ClientSession(api.url, headers={"Authorization": "Bearer me"}) as http,
    ):
        api.put(POD, {})
        await http.get(POD)
        await http.patch(POD, json={"metadata": {"labels": {"a": "b"}}})
    [(verb, token, left)] = written
    assert (verb, token, left["metadata"]["labels"]) == ("patch", "me", {"a": "b"})


async def test_annotations_over_256_kib_are_refused_as_by_a_real_one(api, http) -> None:
    api.put(POD, {})
    for size, status in ((262_143, 200), (262_144, 422)):
        async with http.patch(POD, json={"metadata": {"annotations": {"a": "x" * size}}}) as answer:
            assert answer.status == status
