"""The fake API server keeps what a real one does: each fact is tried on both, the real one where there is one."""

import asyncio

import pytest

from leadsman.kube import access, errors, listing
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.events import warnings_about
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType
from leadsman.kube.objects import ObjectMeta, PartialObjectMetadata, Pod
from leadsman.kube.resources import CORE_EVENTS, NODES, PODS
from tests.leadsman.kube.conftest import Follow
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

SPEC = {"containers": [{"name": "main", "image": "x"}]}


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.slow)])
async def client(request: pytest.FixtureRequest):
    if request.param == "real":
        cluster = request.getfixturevalue("cluster")
        async with ApiClient(access.access_from_url(cluster.url, cluster.ca_file, cluster.token_file())) as one:
            yield one
            for resource in (PODS, NODES, CORE_EVENTS):
                for each in (await listing.list_objects(one, ListOptions(resource), PartialObjectMetadata)).items:
                    path = resource.path(each.metadata.namespace, each.metadata.name)
                    await one.delete(f"{path}?gracePeriodSeconds=0")
    else:
        async with FakeApiServer() as api, ApiClient(ApiAccess(api.url)) as one:
            yield one


async def pod(client, name="web", node="", **meta):
    spec = SPEC | ({"nodeName": node} if node else {})
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | meta, "spec": spec}
    return await client.create(PODS.path("default"), body, Pod)


async def names(client, **wanted):
    return {one.metadata.name for one in (await listing.list_objects(client, ListOptions(PODS, **wanted), Pod)).items}


async def test_what_is_created_has_a_uid_a_version_a_time_a_namespace_and_a_name(client) -> None:
    meta = (
        await client.create(PODS.path("default"), {"metadata": {"generateName": "web-"}, "spec": SPEC}, Pod)
    ).metadata
    assert (meta.namespace, meta.name[:4], len(meta.name)) == ("default", "web-", len("web-") + 5)
    assert meta.uid
    assert meta.creation_timestamp
    patched = await client.patch(PODS.path("default", meta.name), {"metadata": {"labels": {"a": "b"}}})
    assert int(patched.metadata.resource_version) > int(meta.resource_version)
    assert patched.metadata.uid == meta.uid


async def test_created_twice_is_a_conflict(client) -> None:
    await pod(client)
    with pytest.raises(errors.Conflict, match='pods "web" already exists'):
        await pod(client)


async def test_what_is_not_there_cannot_be_got_patched_or_deleted(client) -> None:
    path = PODS.path("default", "none")
    for call in (client.get(path, Pod), client.patch(path, {}), client.delete(path)):
        with pytest.raises(errors.NotFound, match='pods "none" not found'):
            await call


async def test_a_patch_merges_and_null_deletes(client) -> None:
    await pod(client, labels={"a": "1", "b": "2"})
    path, body = PODS.path("default", "web"), {"metadata": {"labels": {"a": None, "c": "3"}}}
    patched = await client.patch(path, body, kind=PartialObjectMetadata)
    assert patched.metadata.labels == {"b": "2", "c": "3"}


async def test_a_patch_of_an_old_version_is_a_conflict(client) -> None:
    old = (await pod(client)).metadata.resource_version
    await client.patch(PODS.path("default", "web"), {"metadata": {"labels": {"a": "1"}}})
    with pytest.raises(errors.Conflict, match="the object has been modified"):
        await client.patch(PODS.path("default", "web"), {"metadata": {"resourceVersion": old, "labels": {"a": "2"}}})


async def test_a_delete_of_another_uid_is_a_conflict(client) -> None:
    await pod(client)
    with pytest.raises(errors.Conflict):
        await client.delete(PODS.path("default", "web"), uid="another")


async def test_a_pod_is_bound_once(client) -> None:
    await pod(client)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"name": "n1"}}
    await client.create(PODS.path("default", "web", "binding"), binding)
    assert (await client.get(PODS.path("default", "web"), Pod)).spec.node_name == "n1"
    with pytest.raises(errors.Conflict, match="already assigned to node"):
        await client.create(PODS.path("default", "web", "binding"), binding)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({"field_selector": "spec.nodeName="}, {"free"}),
        ({"field_selector": "spec.nodeName!="}, {"a", "b"}),
        ({"field_selector": "spec.nodeName=n1"}, {"a"}),
        ({"field_selector": "spec.nodeName!=,metadata.name!=a"}, {"b"}),
        ({"field_selector": "status.phase!=Succeeded,status.phase!=Failed"}, {"a", "b", "free"}),
        ({"label_selector": "app"}, {"a", "b"}),
        ({"label_selector": "!app"}, {"free"}),
        ({"label_selector": "app=web"}, {"a"}),
        ({"label_selector": "app==web"}, {"a"}),
        ({"label_selector": "app!=web"}, {"b", "free"}),
        ({"namespace": "kube-system"}, set()),
        ({"namespace": "default"}, {"a", "b", "free"}),
    ],
)
async def test_selectors(client, selector, found) -> None:
    await pod(client, "a", "n1", labels={"app": "web"})
    await pod(client, "b", "n2", labels={"app": "db"})
    await pod(client, "free")
    assert await names(client, **selector) == found


async def test_warnings_are_those_about_the_object_with_a_uid(client) -> None:
    for name, uid, kind in (("a", "1", "Warning"), ("b", "1", "Normal"), ("c", "2", "Warning")):
        about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": uid}
        event = {"metadata": {"name": name}, "involvedObject": about, "type": kind, "reason": name}
        await client.create(CORE_EVENTS.path("default"), event)
    found = await warnings_about(client, ObjectMeta("web", "default", "1"))
    assert [each.reason for each in found] == ["a"]


async def test_pages_are_all_of_one_version(client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_ITEMS", 2)
    for name in "abcde":
        await pod(client, name)
    read = client.send

    async def and_meanwhile(call):
        body = await read(call)
        if "limit" in call.query and "continue" not in call.query:
            await pod(client, "f")
        return body

    # Undone here: the fixtures that empty the API server after the test read it too.
    with monkeypatch.context() as patched:
        patched.setattr(client, "send", lambda call: and_meanwhile(call) if call.method == "GET" else read(call))
        assert await names(client) == set("abcde")


async def test_a_watch_tells_what_comes_into_the_selection_and_what_leaves_it(client, following: Follow) -> None:
    async with following(client=client, wanted=ListOptions(PODS, label_selector="app=web")) as pods:
        await pod(client, labels={"app": "db"})
        for app in ("web", "web2"):
            await client.patch(PODS.path("default", "web"), {"metadata": {"labels": {"app": app}}})
        await until(lambda: len(pods.told) == 2)
    assert [change.kind for change in pods.told] == [ChangeType.ADDED, ChangeType.DELETED]


async def test_a_deleted_object_has_its_last_state(client, following: Follow) -> None:
    await pod(client, "web", "n1")
    async with following(client=client, wanted=ListOptions(PODS)) as pods:
        await client.patch(PODS.path("default", "web", "status"), {"status": {"phase": "Failed"}})
        await client.delete(f"{PODS.path('default', 'web')}?gracePeriodSeconds=0")
        await until(lambda: not pods.current)
    assert pods.told[-1].object.status.phase == "Failed"


async def test_a_watch_from_a_list_misses_nothing_in_between(client) -> None:
    found = await listing.list_objects(client, ListOptions(PODS), Pod)
    await pod(client)
    query = {"watch": "true", "resourceVersion": found.resource_version}
    async with client.stream(ListOptions(PODS).to_request(query, watch=True), 5.0) as batches:
        async with asyncio.timeout(60):
            lines = await anext(batches)
        await batches.aclose()
    assert b'"ADDED"' in lines[0]
