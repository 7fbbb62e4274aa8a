"""The same code against a real kube-apiserver, where KUBEBUILDER_ASSETS names one."""

import asyncio
import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leadsman.kube import access, errors, events, kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import Event, Node, ObjectReference, PartialObjectMetadata, Pod
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import CORE_EVENTS, EVENTS_V1, NODES, PODS, REPLICA_SETS
from tests.testbed.kube_apiserver import KubeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.leadsman.kube.conftest import Follow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory):
    with KubeApiServer(
        kubernetes_binaries, tmp_path_factory.mktemp("cluster") / "kubernetes", users={"reader": ()}
    ) as one:
        yield one


@pytest.fixture
async def client(cluster):
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file())) as one:
        yield one


def pod(name, node="", **more):
    spec = {"containers": [{"name": "main", "image": "x"}]} | ({"nodeName": node} if node else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | more, "spec": spec}


async def test_bound_pods_are_followed_through_create_status_and_delete(
    following: "Follow", client, until: "Until"
) -> None:
    wanted = ListOptions(PODS, namespace="default", field_selector="spec.nodeName!=")
    async with following(client=client, wanted=wanted) as pods:
        await client.create(PODS.path("default"), pod("free"))
        await client.create(PODS.path("default"), pod("bound", "n1"))
        await until(lambda: pods.names == {"bound"})
        failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await client.patch(PODS.path("default", "bound", "status"), failed)
        await until(lambda: pods.current["default", "bound"].finished)
        created = pods.current["default", "bound"].metadata.uid
        await client.delete(f"{PODS.path('default', 'bound')}?gracePeriodSeconds=0", uid=created)
        await until(lambda: not pods.current)
    assert pods.told[-1].object.status.reason == "Evicted"


async def test_a_pod_that_becomes_bound_appears(following: "Follow", client, until: "Until") -> None:
    await client.create(PODS.path("default"), pod("late"))
    async with following(
        client=client, wanted=ListOptions(PODS, field_selector="spec.nodeName=n7"), cached=True
    ) as pods:
        target = {"apiVersion": "v1", "kind": "Node", "name": "n7"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "late"}, "target": target}
        await client.create(PODS.path("default", "late", "binding"), binding)
        await until(lambda: pods.names == {"late"})


async def test_a_restarted_api_server_is_followed_again_and_nothing_is_missed(
    cluster, following: "Follow", client, until: "Until"
) -> None:
    async with following(client=client, wanted=ListOptions(NODES)) as nodes:
        cluster.kill()
        await until(lambda: nodes.errors["Unavailable"])
        cluster.start()  # not in a thread: it would die with it
        await client.create(NODES.path(), {"metadata": {"name": "n1"}})
        await until(lambda: nodes.names == {"n1"})


async def test_pages_of_a_real_list(client, monkeypatch: pytest.MonkeyPatch) -> None:
    from leadsman.kube import listing

    monkeypatch.setattr(listing, "PAGE_ITEMS", 2)
    for number in range(5):
        await client.create(PODS.path("default"), pod(f"page-{number}", pages="p", labels={"set": "pages"}))
    found = await listing.list_objects(client, ListOptions(PODS, label_selector="set=pages"), Pod)
    assert [one.metadata.name for one in found.items] == [f"page-{number}" for number in range(5)]


async def test_metadata_only(client, until: "Until") -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await client.create(REPLICA_SETS.path("default"), {"metadata": {"name": "web-5d"}, "spec": spec})
    sets = Reflector(client, ListOptions(REPLICA_SETS, metadata_only=True), PartialObjectMetadata)
    task = asyncio.create_task(sets.run())
    await until(lambda: ("default", "web-5d") in sets.current)
    task.cancel()


async def test_a_version_that_was_compacted_is_listed_anew(
    cluster, following: "Follow", client, until: "Until"
) -> None:
    """The API server's cache begins at its start, so a version from before is asked of etcd."""
    async with following(client=client, wanted=ListOptions(NODES)) as nodes:
        nodes._resume = "1"
        cluster.compact()
        cluster.kill()
        cluster.start()
        await until(lambda: nodes.relists == 2)
        assert nodes.errors["Gone"] == 1


async def test_rights_that_are_missing_are_forbidden_with_verb_and_resource(cluster) -> None:
    async with ApiClient(kubeconfig.read(cluster.kubeconfig("reader"))) as reader:
        with pytest.raises(errors.Forbidden, match='cannot list resource "pods"'):
            await reader.get(PODS.path(), PartialObjectMetadata)


async def test_an_unknown_token_is_unauthorized(cluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("nobody's")
    async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, tmp_path / "token")) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.get(PODS.path(), PartialObjectMetadata)


async def test_an_invalid_object_is_invalid_with_the_field(client) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"metadata\.name"):
        await client.create(PODS.path("default"), pod("Not_A_Name"))


async def test_an_event_of_ours_is_taken_and_read_back(client) -> None:
    at = datetime.datetime.now(datetime.UTC)
    about = ObjectReference("Pod", "default", "web-0", "u")
    written = events.event_body(
        about, "Refused", "ü" * 2000, at=at, controller="leadsman.dev/x", instance="x-0", action="Placing", warning=True
    )
    made = await client.create(EVENTS_V1.path("default"), written)
    read = await client.get(CORE_EVENTS.path("default", made.metadata.name), Event)
    assert (read.type, read.reason, read.last_seen) == ("Warning", "Refused", at)
    assert read.involved_object.uid == "u"


async def test_labels_of_a_node_are_patched_one_by_one(client) -> None:
    await client.create(NODES.path(), {"metadata": {"name": "n2", "labels": {"a": "1", "b": "2"}}})
    patched = await client.patch(NODES.path(name="n2"), {"metadata": {"labels": {"a": None, "c": "3"}}}, kind=Node)
    assert {"b": "2", "c": "3"}.items() <= patched.metadata.labels.items()
    assert "a" not in patched.metadata.labels


async def test_a_version_that_never_was_is_silent_and_listed_anew(following: "Follow", client, until: "Until") -> None:
    """What an API server does whose etcd was restored to before what was seen."""
    async with following(client=client, wanted=ListOptions(NODES), silence_seconds=0.5) as nodes:
        nodes._resume = "999999999"
        nodes.errors.clear()
        await until(lambda: nodes.relists == 2)
