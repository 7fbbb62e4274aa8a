"""A reflector's watches end in every way that watches do, and are continued or begun again."""

import json

import pytest

from tests.conftest import Until
from tests.leadsman.kube.conftest import Follow
from tests.leadsman.kube.watched_pods import NEW, pod, versions
from tests.testbed.scripted_api_server import FakeApiServer

pytestmark = pytest.mark.usefixtures("web")


async def test_a_watch_that_is_closed_is_resumed_where_it_was(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.put(NEW, pod())
        await until(lambda: pods.names == {"web-0", "web-1"})
        seen = api.objects.revision
        api.end_watches()
        await until(lambda: len(versions(api)) == 2)
        assert versions(api)[1] == str(seen)
        assert pods.relists == 1


async def test_a_watch_that_is_reset_within_a_line_is_resumed_and_the_piece_dropped(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.reset_watches(b'{"type":"DELETED","object":{"metadata":{"namespace":"default","name":"web-0"')
        await until(lambda: len(versions(api)) == 2)
        assert versions(api)[1] == versions(api)[0]
        assert pods.names == {"web-0"}


async def test_what_stands_before_an_error_counts(api: FakeApiServer, following: Follow, until: Until) -> None:
    gone = json.dumps({"type": "DELETED", "object": {"metadata": {"name": "web-0", "namespace": "default"}}})
    async with following() as pods:
        await until(lambda: api.watches)
        api.send_line(gone.encode() + b'\n{"type":"ERROR","object":{"code":500}}\n')
        await until(lambda: not pods.current)


async def test_garbage_on_a_watch_resumes(api: FakeApiServer, following: Follow, until: Until) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.send_line(b"<html>\n")
        await until(lambda: len(versions(api)) == 2)
        assert (pods.names, pods.relists, pods.errors["MalformedResponse"]) == ({"web-0"}, 1, 1)


async def test_a_bookmark_moves_the_version_to_resume_at_and_is_no_object(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    async with following() as pods:
        await until(lambda: api.watches)
        api.put("/api/v1/nodes/n1", {})
        api.send_bookmarks()
        api.end_watches()
        await until(lambda: len(versions(api)) == 2)
        assert versions(api)[1] == str(api.objects.revision)
        assert pods.names == {"web-0"}


async def test_versions_that_go_back_list_anew(api: FakeApiServer, following: Follow, until: Until) -> None:
    """etcd was restored from a backup."""
    async with following() as pods:
        await until(lambda: api.watches)
        api.send_line(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n')
        await until(lambda: pods.relists == 2)


async def test_silence_opens_the_watch_anew_and_a_second_one_lists(
    api: FakeApiServer, following: Follow, until: Until
) -> None:
    async with following(silence_seconds=0.1) as pods:
        await until(lambda: len(versions(api)) == 2)
        assert pods.relists == 1
        await until(lambda: pods.relists == 2)
        assert pods.errors["StreamSilent"] >= 2


async def test_after_a_long_loss_it_is_listed_anew(api: FakeApiServer, following: Follow, until: Until) -> None:
    now = 0.0
    async with following(clock=lambda: now, silence_seconds=75) as pods:
        await until(lambda: pods.is_watching)
        now = 136.0
        api.reset_watches()
        await until(lambda: pods.relists == 2)
