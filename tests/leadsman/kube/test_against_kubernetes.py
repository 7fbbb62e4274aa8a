"""The same code against a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import datetime

import pytest

from leadsman.kube import access
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import Event, ObjectReference
from leadsman.kube.resources import CORE_EVENTS, NODES
from leadsman.runtime.token_bucket import TokenBucket
from tests.leadsman.kube.conftest import Follow
from tests.testbed.background import running
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
async def client(cluster):
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file())) as one:
        yield one


async def test_a_restarted_api_server_is_followed_again_and_nothing_is_missed(
    cluster, following: Follow, client
) -> None:
    async with following(client=client, wanted=ListOptions(NODES)) as nodes:
        cluster.kill()
        await until(lambda: nodes.errors["Unavailable"])
        cluster.start()  # not in a thread: it would die with it
        await client.create(NODES.path(), {"metadata": {"name": "n1"}})
        await until(lambda: nodes.names == {"n1"})


async def test_a_version_that_was_compacted_is_listed_anew(cluster, following: Follow, client) -> None:
    """The API server's cache begins at its start, so a version from before is asked of etcd."""
    async with following(client=client, wanted=ListOptions(NODES)) as nodes:
        nodes._resume = "1"
        cluster.compact()
        cluster.kill()
        cluster.start()
        await until(lambda: nodes.relists == 2)
        assert nodes.errors["Gone"] == 1


async def test_an_event_of_ours_is_taken_and_read_back(client) -> None:
    at = datetime.datetime.now(datetime.UTC)
    writer = EventWriter(client, TokenBucket(10.0, 10), "x-0", lambda: at)
    about = ObjectReference("Pod", "default", "web-0", "u")
    writer.record(about, "Refused", "ü" * 2000, "Placing", warning=True, name="web-0.refused")
    async with running(writer.run()):
        await until(lambda: writer.written == 1)
    read = await client.get(CORE_EVENTS.path("default", "web-0.refused"), Event)
    assert (read.type, read.reason, read.last_seen, read.message) == ("Warning", "Refused", at, "ü" * 512)
    assert read.involved_object.uid == "u"


async def test_a_version_that_never_was_is_silent_and_listed_anew(following: Follow, client) -> None:
    """What an API server does whose etcd was restored to before what was seen."""
    async with following(client=client, wanted=ListOptions(NODES), silence_seconds=0.5) as nodes:
        nodes._resume = "999999999"
        nodes.errors.clear()
        await until(lambda: nodes.relists == 2)
